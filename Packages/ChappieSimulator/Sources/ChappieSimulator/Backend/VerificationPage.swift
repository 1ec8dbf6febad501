@_spi(ChappieInternals) import ChappieCore
import FoundationEssentials

/// The page where the user types the code and decides. Plain HTML: it works without scripts, with a keyboard, with a
/// screen reader, in the dark, and on a narrow screen.
enum VerificationPage {
    /// The form. `problem` is a sentence about the last try, `typed` what was in the field; of several `accounts` the
    /// user chooses one.
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

    private static func choice(of accounts: [SimulatorAccount]) -> String {
        guard accounts.count > 1 else { return "" }
        let options = accounts.map {
            "<option value=\"\($0.id.escapedForHTML)\">\($0.email.escapedForHTML) (\($0.plan.escapedForHTML))</option>"
        }
        return
            "<label for=\"account\">Account</label>\n<select id=\"account\" name=\"account\">\(options.joined())</select>"
    }

    static func approved() -> String {
        result(
            title: "You are signed in",
            text: "The app now has access to the simulated account. You can close this page and return to the app.")
    }

    static func refused() -> String {
        result(
            title: "Sign-in refused",
            text: "The app did not get access. You can close this page and return to the app.")
    }

    static func forbidden() -> String {
        result(
            title: "This request was not accepted",
            text: "It came from another page. Open the sign-in address yourself and try again.")
    }

    private static func result(title: String, text: String) -> String {
        document(title: title, content: "<h1>\(title)</h1>\n<p role=\"status\">\(text)</p>")
    }

    private static func document(title: String, content: String) -> String {
        """
        <!DOCTYPE html>
        <html lang="en">
        <head>
        <meta charset="utf-8">
        <meta name="viewport" content="width=device-width, initial-scale=1">
        <meta name="color-scheme" content="light dark">
        <title>\(title) · Chappie simulator</title>
        <style>\(style)</style>
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

    /// The hash of the style sheet, for a policy that allows this one and nothing else.
    static let styleHash = Data(SHA256.digest(Array(style.utf8))).base64EncodedString()

    private static let style = """
        :root{--ink:#1c1f23;--soft:#5a626c;--page:#f4f5f7;--card:#fff;--line:#8a929c;--key:#0b6b4f;--keyink:#fff;--bad:#a3181f}
        @media(prefers-color-scheme:dark){:root{--ink:#eceef0;--soft:#a7afb9;--page:#15171a;--card:#202328;--line:#7b838d;\
        --key:#4cc29b;--keyink:#06251b;--bad:#ff9b9b}}
        *{box-sizing:border-box}
        body{margin:0;min-height:100vh;display:flex;flex-direction:column;align-items:center;justify-content:center;\
        padding:1rem;background:var(--page);color:var(--ink);font:1rem/1.5 system-ui,sans-serif}
        main{width:100%;max-width:26rem;padding:2rem;border-radius:1rem;background:var(--card);box-shadow:0 2px 12px #0002}
        h1{margin:0 0 .75rem;font-size:1.5rem;line-height:1.2}
        p{margin:0 0 1rem}
        label{display:block;font-weight:600;margin-bottom:.25rem}
        input{width:100%;padding:.7rem .8rem;border:1px solid var(--line);border-radius:.6rem;background:var(--page);\
        color:inherit;font:600 1.35rem/1.2 ui-monospace,monospace;letter-spacing:.12em;text-transform:uppercase}
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
    /// The verification page: GET shows the form (`?user_code=…` fills it in), POST decides.
    mutating func verificationPage(_ request: BackendRequest, now: Int) -> BackendResponse {
        // A page elsewhere must neither reach this one under a name of its own nor send the form (RFC 6454).
        guard Self.namesThisMachine(authority: request.header("host") ?? "") else {
            return page(VerificationPage.forbidden(), status: 421)
        }
        guard request.method == "POST" else {
            return page(form(typed: String((request.query["user_code"] ?? "").prefix(40))))
        }
        guard isFromThisPage(request), request.mediaType == "application/x-www-form-urlencoded" else {
            return page(VerificationPage.forbidden(), status: 403)
        }
        let fields = FormFields(request.received.body)
        let typed = String((fields["user_code"] ?? "").prefix(40))
        guard let code = UserCode(typed: typed) else {
            return page(form(typed: typed, problem: "Please enter the code."), status: 400)
        }
        guard authorizations.isPending(code, now: now) else {
            let problem =
                "No sign-in waits under this code. Check the letters; a code works once and for 15 minutes."
            return page(form(typed: typed, problem: problem), status: 400)
        }
        switch fields["action"] {
        case "approve":
            let accountID = fields["account"]
            if let accountID, configuration.account(id: accountID) == nil {
                return page(form(typed: typed, problem: "There is no such account."), status: 400)
            }
            _ = authorizations.approve(code, as: accountID, now: now)
            return page(VerificationPage.approved())
        case "refuse":
            _ = authorizations.refuse(code, now: now)
            return page(VerificationPage.refused())
        default:
            return page(
                form(typed: typed, problem: "Please choose Approve or Refuse."), status: 400)
        }
    }

    /// Whether the value of a Host header field, its port left out, is a name of this machine.
    static func namesThisMachine(authority: String) -> Bool {
        let end = authority.hasPrefix("[") ? authority.firstIndex(of: "]").map(authority.index(after:)) : nil
        return Origin.isLoopback(
            host: String(authority[..<(end ?? authority.firstIndex(of: ":") ?? authority.endIndex)]))
    }

    private func form(typed: String, problem: String? = nil) -> String {
        VerificationPage.form(typed: typed, problem: problem, accounts: configuration.accounts)
    }

    /// Browsers say where a form comes from; a client that says nothing is not a browser.
    private func isFromThisPage(_ request: BackendRequest) -> Bool {
        let host = request.header("host") ?? ""
        if let origin = request.header("origin"), origin != "http://\(host)", origin != "https://\(host)" {
            return false
        }
        if let site = request.header("sec-fetch-site"), site != "same-origin", site != "none" { return false }
        return true
    }

    private func page(_ html: String, status: Int = 200) -> BackendResponse {
        .html(
            html, status: status,
            headers: [
                noStore,
                (
                    "content-security-policy",
                    "default-src 'none'; style-src 'sha256-\(VerificationPage.styleHash)'; form-action 'self'; "
                        + "base-uri 'none'; frame-ancestors 'none'"
                ),
                // Not "no-referrer": a form would then come with the origin "null".
                ("referrer-policy", "same-origin"),
                ("x-content-type-options", "nosniff"),
                ("x-frame-options", "DENY"),
            ])
    }
}

extension String {
    /// Safe as HTML text and inside a quoted attribute.
    var escapedForHTML: String {
        var output = ""
        for scalar in unicodeScalars {
            switch scalar {
            case "&": output += "&amp;"
            case "<": output += "&lt;"
            case ">": output += "&gt;"
            case "\"": output += "&quot;"
            case "'": output += "&#39;"
            default: output.unicodeScalars.append(scalar)
            }
        }
        return output
    }
}
