@_spi(ChappieInternals) import ChappieCore

/// The page on which the user enters the code and decides. It is plain HTML. It works without scripts, with a keyboard,
/// with a screen reader, in the dark, and on a narrow screen.
enum VerificationPage {
    /// Returns the form. `problem` is a sentence about the last attempt, and `typed` is the text that was in the field.
    /// The user chooses one of several `accounts`.
    static func form(typed: String = "", problem: String? = nil, accounts: [SimulatorAccount] = []) -> String {
        let alert = problem.map { "<p class=\"alert\" id=\"problem\" role=\"alert\">\($0.escapedForHTML)</p>" } ?? ""
        let state =
            problem == nil ? "aria-describedby=\"hint\"" : "aria-invalid=\"true\" aria-describedby=\"problem hint\""
        return document(
            title: "Sign in with a code",
            content: """
                <h1>Sign in with a code</h1>
                <p>Enter the code that your app shows you. Approve only if you started this sign-in yourself.</p>
                \(alert)
                <form method="post" action="/codex/device">
                <label for="user_code">Code</label>
                <input id="user_code" name="user_code" type="text" value="\(typed.escapedForHTML)" required autofocus
                 maxlength="40" autocomplete="off" autocapitalize="characters" spellcheck="false" \(state)>
                <p class="hint" id="hint">Nine letters, such as BCDF-GHJKL. Capitals, spaces and the dash don't matter.</p>
                \(choice(of: accounts))
                <div class="buttons">
                <button type="submit" name="action" value="approve">Approve</button>
                <button type="submit" name="action" value="refuse" class="quiet">Refuse</button>
                </div>
                </form>
                """)
    }

    static func choice(of accounts: [SimulatorAccount]) -> String {
        guard accounts.count > 1 else { return "" }
        let options = accounts.map {
            "<option value=\"\($0.id.escapedForHTML)\">\($0.email.escapedForHTML) (\($0.plan.escapedForHTML))</option>"
        }
        return
            "<label for=\"account\">Account</label>\n<select id=\"account\" name=\"account\">\(options.joined())</select>"
    }

    static let approved = result(
        title: "You are signed in",
        text: "The app now has access to the simulated account. You can close this page and return to the app.")
    static let refused = result(
        title: "Sign-in refused", text: "The app did not get access. You can close this page and return to the app.")
    static let forbidden = result(
        title: "This request was not accepted",
        text: "It came from another page. Open the sign-in address yourself and try again.")

    private static func result(title: String, text: String) -> String {
        document(title: title, content: "<h1>\(title)</h1>\n<p role=\"status\">\(text)</p>")
    }

    static func document(title: String, content: String) -> String {
        """
        <!DOCTYPE html>
        <html lang="en">
        <head>
        <meta charset="utf-8">
        <meta name="viewport" content="width=device-width, initial-scale=1">
        <meta name="color-scheme" content="light dark">
        <title>\(title) · Chappie simulator</title>
        <style nonce="\(nonce)">\(style)</style>
        </head>
        <body>
        <main>
        \(content)
        </main>
        <footer>Chappie simulator: nothing here is a real account.</footer>
        </body>
        </html>
        """
    }

    /// The nonce by which the policy allows the style sheet, and nothing else.
    static let nonce = randomSecret()

    private static let style = """
        :root{--ink:#1c1f23;--soft:#5a626c;--page:#f4f5f7;--card:#fff;--line:#8a929c;--key:#0b6b4f;--keyink:#fff;--bad:#a3181f}
        @media(prefers-color-scheme:dark){:root{--ink:#eceef0;--soft:#a7afb9;--page:#15171a;--card:#202328;--line:#7b838d;\
        --key:#4cc29b;--keyink:#06251b;--bad:#ff9b9b}}
        *{box-sizing:border-box}
        body{margin:0;min-height:100vh;display:flex;flex-direction:column;align-items:center;justify-content:center;\
        padding:1rem;background:var(--page);color:var(--ink);font:1rem/1.5 system-ui,sans-serif}
        main{width:100%;max-width:26rem;padding:2rem;border-radius:1rem;background:var(--card);box-shadow:0 2px 12px #0002}
        @media(max-width:24rem){main{padding:1.5rem 1.25rem}}
        main>:last-child{margin-bottom:0}
        h1{margin:0 0 .75rem;font-size:1.5rem;line-height:1.2}
        p{margin:0 0 1rem}
        label{display:block;font-weight:600;margin-bottom:.25rem}
        input{width:100%;padding:.7rem .8rem;border:1px solid var(--line);border-radius:.6rem;background:var(--page);\
        color:inherit;font:600 1.35rem/1.2 ui-monospace,monospace;letter-spacing:.12em;text-transform:uppercase}
        input[type=checkbox]{width:auto}
        select{width:100%;margin-bottom:1.25rem;padding:.7rem .8rem;border:1px solid var(--line);border-radius:.6rem;\
        background:var(--page);color:inherit;font:inherit}
        .hint,footer{color:var(--soft);font-size:.875rem}
        .hint{margin:.4rem 0 1.25rem}
        .alert{padding:.7rem .8rem;border:1px solid var(--bad);border-radius:.6rem;color:var(--bad)}
        .buttons{display:flex;gap:.75rem}
        button{flex:1;padding:.75rem;border:1px solid var(--key);border-radius:.6rem;background:var(--key);\
        color:var(--keyink);font:600 1rem/1.2 system-ui,sans-serif;cursor:pointer}
        button.quiet{background:transparent;color:inherit;border-color:var(--line)}
        :focus-visible{outline:3px solid var(--key);outline-offset:2px}
        footer{margin-top:1.25rem;text-align:center}
        """
}

extension Backend {
    /// Returns the verification page. GET shows the form (`?user_code=…` fills it in), and POST decides.
    mutating func verificationPage(_ request: BackendRequest, now: Int) -> BackendResponse {
        // A page from elsewhere must neither reach this one under its own name nor send the form (RFC 6454).
        let host = request.header("host") ?? ""
        guard Self.namesThisMachine(authority: host) else { return page(VerificationPage.forbidden, status: 421) }
        guard request.method == "POST" else { return form(typed: request.query["user_code"] ?? "") }
        // Browsers name the origin of a form. A client that names none is not a browser.
        let isOwn = ["http://\(host)", "https://\(host)", nil].contains(request.header("origin"))
        let isFromThisSite = ["same-origin", "none", nil].contains(request.header("sec-fetch-site"))
        guard isOwn, isFromThisSite, request.isForm, let fields = request.fields else {
            return page(VerificationPage.forbidden, status: 403)
        }
        let (typed, accountID) = (fields["user_code"] ?? "", fields["account"])
        guard UserCode(typed: typed) != nil else { return form(typed: typed, problem: "Please enter the code.") }
        guard let action = fields["action"], ["approve", "refuse"].contains(action) else {
            return form(typed: typed, problem: "Please choose Approve or Refuse.")
        }
        if let accountID, configuration.account(id: accountID) == nil {
            return form(typed: typed, problem: "There is no such account.")
        }
        guard authorizations.decide(typed, approves: action == "approve", as: accountID, now: now) else {
            let problem = "No sign-in waits under this code. Check the letters; a code works once and for 15 minutes."
            return form(typed: typed, problem: problem)
        }
        return page(action == "approve" ? VerificationPage.approved : VerificationPage.refused)
    }

    /// Returns whether the value of a Host header field, without its port, is a name of this machine.
    static func namesThisMachine(authority: String) -> Bool {
        let port = authority.hasSuffix("]") ? nil : authority.lastIndex(of: ":")
        return Origin.isLoopback(host: String(authority[..<(port ?? authority.endIndex)]))
    }

    private func form(typed: String, problem: String? = nil) -> BackendResponse {
        let accounts = configuration.accounts
        let html = VerificationPage.form(typed: String(typed.prefix(40)), problem: problem, accounts: accounts)
        return page(html, status: problem == nil ? 200 : 400)
    }

    /// Returns a page with the header fields that protect it.
    ///
    /// - Parameter formTargets: the sources to which a form of the page may lead, including redirects.
    func page(_ html: String, status: Int = 200, formTargets: String = "'self'") -> BackendResponse {
        let policy =
            "default-src 'none'; style-src 'nonce-\(VerificationPage.nonce)'; form-action \(formTargets); "
            + "base-uri 'none'; frame-ancestors 'none'"
        return .text(
            html, type: "text/html", status: status,
            headers: [
                noStore, ("content-security-policy", policy), ("x-content-type-options", "nosniff"),
                // With "no-referrer", a form would be sent with the origin "null".
                ("referrer-policy", "same-origin"), ("x-frame-options", "DENY"),
            ])
    }
}

extension String {
    /// The text, escaped for HTML text and for a quoted attribute.
    var escapedForHTML: String {
        let escapes = [("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("\"", "&quot;"), ("'", "&#39;")]
        return escapes.reduce(self) { $0.replacing($1.0, with: $1.1) }
    }
}
