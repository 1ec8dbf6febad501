extension Backend {
    /// The verification page: GET shows the form (`?user_code=…` fills it in), POST decides.
    mutating func verificationPage(_ request: BackendRequest, now: Int) -> BackendResponse {
        // A page elsewhere must neither reach this one under a name of its own nor send the form (RFC 6454).
        guard LoopbackHost.isLoopback(authority: request.header("host") ?? "") else {
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
            if let accountID, settings.account(id: accountID) == nil {
                return page(form(typed: typed, problem: "There is no such account."), status: 400)
            }
            _ = authorizations.approve(code, as: accountID, now: now, identifiers: &identifiers)
            return page(VerificationPage.approved())
        case "refuse":
            _ = authorizations.refuse(code, now: now)
            return page(VerificationPage.refused())
        default:
            return page(
                form(typed: typed, problem: "Please choose Approve or Refuse."), status: 400)
        }
    }

    private func form(typed: String, problem: String? = nil) -> String {
        VerificationPage.form(typed: typed, problem: problem, accounts: settings.accounts)
    }

    /// Browsers say where a form comes from; what says nothing is not a browser.
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
