@_spi(ChappieInternals) import ChappieCore

/// The content of an error answer (RFC 6749, 5.2, and the forms that this server sends).
struct IssuerError: Sendable, Hashable {
    let status: Int
    /// The error code in lower case, or `nil` if it is missing or not valid.
    let code: String?
    /// Whether the body contains a code. Otherwise ``code`` is the error's type, which is less exact.
    let hasOwnCode: Bool
    /// The server's message, at most 300 characters.
    let message: String?

    /// - Parameter body: The body of ``ChappieAuthError/tokenExchangeFailed(statusCode:body:)``, without secrets.
    init(status: Int, body: String) {
        let body = (try? ChappieJSON(parsing: body))?.object
        self.status = status
        let error = body?["error"]
        let ownCode = [error?["code"], error, body?["code"]].lazy.compactMap { Self.code($0?.string) }.first
        code = ownCode ?? Self.code(error?["type"]?.string)
        hasOwnCode = ownCode != nil
        let sentences = [body?["error_description"], error?["message"], body?["message"], body?["detail"]]
        message = UntrustedText.message(sentences.lazy.compactMap { $0?.string }.first)
    }

    /// Whether the token endpoint itself reports that the refresh token or the grant is not valid any more. In that
    /// case the body has a code about the token.
    var endsTheGrant: Bool { code.map(Self.permanentCodes.contains) == true }

    /// Whether the server has refused the request in its own JSON, for a reason that may be unknown here, such as the
    /// client or a new code about the token. A status without a code, or a web page, may be from a proxy on the way. A
    /// ``SignInObstacle`` is not about the token.
    var isRefusal: Bool {
        (400..<500).contains(status) && ![408, 409, 425, 429].contains(status) && code != nil
            && SignInObstacle(self) == nil
    }

    /// Whether the same request can't succeed later.
    var isPermanent: Bool { endsTheGrant || status == 401 && isRefusal }

    private static let permanentCodes: Set = [
        "invalid_grant", "invalid_refresh_token", "refresh_token_expired", "refresh_token_reused",
        "refresh_token_invalidated", "token_expired", "app_session_terminated", "account_deactivated",
    ]

    /// The reason why a new sign-in is needed, as sentences for the user.
    var reason: String {
        switch code {
        case "refresh_token_expired": "Your sign-in has expired. Please sign in again."
        case "refresh_token_reused":
            "Your sign-in was already renewed, by another copy of it or by a request whose answer was lost. "
                + "Please sign in again."
        case "refresh_token_invalidated": "Your sign-in was revoked. Please sign in again."
        case "app_session_terminated": "Your session was ended by the service. Please sign in again."
        case "account_deactivated": "Your account was deactivated, or you no longer belong to its workspace."
        default: "Your sign-in could not be renewed (\(summary)). Please sign in again."
        }
    }

    /// The status, with the message and the code if there are any.
    var summary: String {
        let words =
            switch (message, code) {
            case (let message?, let code?): ": \(message) (\(code))"
            case (let words?, nil), (nil, let words?): ": \(words)"
            case (nil, nil): ""
            }
        return "status \(status)\(words)"
    }

    private static func code(_ text: String?) -> String? {
        guard let text, (1...64).contains(text.utf8.count), text.utf8.allSatisfy({ isUnreserved($0) && $0 != 0x7E }),
            UntrustedText.message(text) == text
        else { return nil }
        return text.lowercased()
    }
}

/// A reason why the service refuses every sign-in until the user or an administrator acts.
@_spi(ChappieInternals) public enum SignInObstacle: Sendable, Hashable {
    /// The service does not work in the country of the connection.
    case country
    /// The account has no workspace that may use the service.
    case workspace
    /// The workspace may not use the service.
    case entitlement
    /// The workspace does not allow device codes.
    case deviceCodes

    /// Creates an obstacle from the code of a refusal.
    ///
    /// - Returns: `nil` for any other error.
    init?(_ error: IssuerError) {
        guard (400..<500).contains(error.status), let code = error.code else { return nil }
        self.init(code: code, message: error.message)
    }

    /// - Parameter code: The error code, in lower case.
    init?(code: String, message: String? = nil) {
        let isAboutDeviceCodes = ["device_code", "device_auth", "deviceauth"].contains(where: code.hasPrefix)
        let isForbidden = ["disabled", "not_enabled", "forbidden", "not_allowed", "blocked"]
            .contains(where: code.hasSuffix)
        if code.hasPrefix("unsupported_country") || code.hasPrefix("unsupported_region") {
            self = .country
        } else if code.hasPrefix("chatgpt_account_missing") || code.contains("no_eligible")
            || message?.lowercased().hasPrefix("no eligible chatgpt workspace") == true
        {
            self = .workspace
        } else if code.hasPrefix("missing_"), code.hasSuffix("_entitlement") {
            self = .entitlement
        } else if isAboutDeviceCodes, isForbidden {
            self = .deviceCodes
        } else {
            return nil
        }
    }

    /// The user's next step.
    var advice: String {
        switch self {
        case .country:
            "The service does not work from where this machine's connection comes from. Sign in from a country that it "
                + "supports."
        case .workspace, .entitlement:
            "Ask the workspace's administrator for access to Codex, or choose another workspace in the browser."
        case .deviceCodes:
            "Ask the workspace's administrator to allow device codes (Settings, Security), or sign in with a browser on "
                + "this machine instead."
        }
    }
}
