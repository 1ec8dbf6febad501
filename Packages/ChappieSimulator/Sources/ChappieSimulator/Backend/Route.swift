/// What there is to ask for.
enum Route: Sendable, Hashable {
    case userCode, deviceToken, verificationPage, token, revoke
    case accountsCheck, usage, models, responses

    init?(path: String) {
        switch path {
        case "/api/accounts/deviceauth/usercode": self = .userCode
        case "/api/accounts/deviceauth/token": self = .deviceToken
        case "/codex/device", "/codex/device/": self = .verificationPage
        case "/oauth/token": self = .token
        case "/oauth/revoke": self = .revoke
        case "/backend-api/wham/accounts/check": self = .accountsCheck
        case "/backend-api/wham/usage": self = .usage
        case "/backend-api/codex/models": self = .models
        case "/backend-api/codex/responses": self = .responses
        default: return nil
        }
    }

    var methods: [String] {
        switch self {
        case .userCode, .deviceToken, .token, .revoke: ["POST"]
        case .verificationPage, .responses: ["GET", "POST"]
        case .accountsCheck, .usage, .models: ["GET"]
        }
    }

    /// Whether it is behind a bearer token.
    var needsToken: Bool {
        switch self {
        case .userCode, .deviceToken, .verificationPage, .token, .revoke: false
        case .accountsCheck, .usage, .models, .responses: true
        }
    }
}
