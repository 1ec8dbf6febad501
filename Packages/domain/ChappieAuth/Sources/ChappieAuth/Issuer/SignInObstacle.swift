/// A reason for which the service refuses every sign-in until a person has done something.
@_spi(ChappieInternals) public enum SignInObstacle: Sendable, Hashable {
    /// The service does not work in the country of the connection.
    case country
    /// The account has no workspace that may use the service.
    case workspace
    /// The workspace may not use the service.
    case entitlement
    /// The workspace does not allow device codes.
    case deviceCodes

    /// Reads the code of a refusal.
    ///
    /// - Returns: `nil` for any other error.
    init?(_ error: IssuerError) {
        guard (400..<500).contains(error.status), let code = error.code else { return nil }
        self.init(code: code, message: error.message)
    }

    /// - Parameter code: In lower case.
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

    /// The next step of the person.
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
