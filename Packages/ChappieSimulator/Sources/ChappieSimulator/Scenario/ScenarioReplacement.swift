import ChappieCore

/// An answer that a scenario gives in the backend's place.
enum ScenarioReplacement: Sendable, Hashable {
    /// A status, and a body that is JSON or text.
    case response(status: Int, body: ChappieJSON)
    /// 401 with the code `token_expired`.
    case unauthorized
    /// 401 of the token endpoint.
    case refreshRefused(TokenLedger.RefreshFailure)
    /// 429 with the type `usage_limit_reached`.
    case usageLimit(resetsInSeconds: Int)
    /// 400 with the code `websocket_connection_limit_reached`.
    case connectionLimit
    /// 400 with the code `previous_response_not_found`.
    case previousResponseNotFound
    /// 200 with a page where JSON or events belong.
    case html

    static let members: Set<String> = [
        "status", "body", "unauthorized", "refresh", "usageLimit", "connectionLimit", "previousResponseNotFound",
        "html",
    ]

    private enum Refresh: String, CaseIterable { case expired, reused, invalidated }

    init?(_ reader: ScenarioReader) throws(SimulatorError) {
        var found: [ScenarioReplacement] = []
        if let status = reader["status"] {
            found.append(.response(status: try status.integer(in: 200...599), body: reader["body"]?.value ?? .null))
        } else if let body = reader["body"] {
            found.append(.response(status: 200, body: body.value))
        }
        if try reader["unauthorized"]?.bool() == true { found.append(.unauthorized) }
        if try reader["connectionLimit"]?.bool() == true { found.append(.connectionLimit) }
        if try reader["previousResponseNotFound"]?.bool() == true { found.append(.previousResponseNotFound) }
        if try reader["html"]?.bool() == true { found.append(.html) }
        if let refresh = reader["refresh"] {
            switch try refresh.choice(Refresh.self) {
            case .expired: found.append(.refreshRefused(.expired))
            case .reused: found.append(.refreshRefused(.reused))
            case .invalidated: found.append(.refreshRefused(.invalidated))
            }
        }
        if let limit = reader["usageLimit"] {
            try limit.allow(["resetsInSeconds"])
            found.append(
                .usageLimit(resetsInSeconds: try limit["resetsInSeconds"]?.integer(in: 0...31_536_000) ?? 3600))
        }
        guard found.count <= 1 else {
            throw reader.wrong(
                "can have only one of status, unauthorized, refresh, usageLimit, connectionLimit, "
                    + "previousResponseNotFound and html")
        }
        guard let first = found.first else { return nil }
        self = first
    }

    /// - Parameter now: Unix seconds.
    /// - Parameter account: whom it answers.
    func response(settings: BackendSettings, account: SimulatorAccount, now: Int) -> BackendResponse {
        switch self {
        case .response(let status, .null): return .empty(status: status)
        case .response(let status, .string(let text)):
            return BackendResponse(
                status: status, headers: [("content-type", "text/plain; charset=utf-8")],
                body: .bytes(Array(text.utf8)))
        case .response(let status, let body): return .json(body, status: status)
        case .unauthorized:
            return .error(
                401, code: "token_expired",
                message: "Provided authentication token is expired. Please try signing in again.")
        case .connectionLimit: return Backend.connectionLimitReached
        case .previousResponseNotFound: return Backend.previousResponseNotFound("resp_forgotten")
        case .refreshRefused(let failure): return Backend.refusal(failure)
        case .html:
            return .html("<!DOCTYPE html><title>Sign in to the network</title><p>Please sign in to this network.")
        case .usageLimit(let seconds):
            let error: ChappieJSON = [
                "type": "usage_limit_reached", "message": "The usage limit has been reached",
                "plan_type": .string(account.plan), "resets_at": .integer(now + seconds),
                "resets_in_seconds": .integer(seconds),
            ]
            return .json(
                ["error": error], status: 429,
                headers: [
                    ("x-codex-active-limit", "codex"), ("x-codex-primary-used-percent", "100.0"),
                    ("x-codex-primary-window-minutes", "\(settings.usage(of: account).primaryWindowMinutes)"),
                    ("x-codex-primary-reset-at", "\(now + seconds)"),
                    ("x-codex-rate-limit-reached-type", "rate_limit_reached"),
                ])
        }
    }
}
