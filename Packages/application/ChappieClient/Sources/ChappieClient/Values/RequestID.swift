@_spi(ChappieInternals) import ChappieCore
import HTTPTypes
import Synchronization

/// The name under which the server knows an exchange, for a question to its operator.
enum RequestID {
    /// The header fields in which the service names an exchange, the usual one first.
    private static let serviceNames = ["x-request-id", "x-oai-request-id"]
    /// The header fields that may hold it, the usual one first. The last is the name that the service's edge gives.
    static let names = serviceNames + ["cf-ray"]
    private static let limit = 200

    /// The usual field. The name is valid by RFC 9110's grammar; the fallback only spares a trap.
    static let field = HTTPField.Name(serviceNames[0]) ?? .accept

    /// Returns the sentence in which an error names it.
    static func sentence(_ id: String) -> String { "The request's id is \(id)." }

    /// Whether the service itself has named the exchange.
    static func isOfService(_ fields: HTTPFields) -> Bool {
        serviceNames.contains { HTTPField.Name($0).flatMap { fields[$0] } != nil }
    }

    /// The first of the fields that holds a valid name.
    static func of(_ value: (String) -> String?) -> String? {
        names.compactMap { UntrustedText.token(value($0), limit: limit) }.first
    }
}

extension HTTPFields {
    var requestID: String? { RequestID.of { HTTPField.Name($0).flatMap { self[$0] } } }
}

extension ChappieClientError {
    /// The name under which the server knows the exchange that failed (`x-request-id`), for a question to its operator;
    /// `nil` if the error came from no server, or if the server gave no name.
    ///
    /// ``httpError(_:_:)``, ``blockedByGateway(_:)`` and ``contextWindowExceeded`` have no place for it in their
    /// values. The names of the last hundred such errors are remembered instead: if several of them are equal, this is
    /// the name of the newest, which may be another client's.
    public var requestID: String? {
        switch self {
        case .responseFailed(let response): response.requestID
        case .usageLimitReached(let limit): limit.requestID
        case .planRefused(let refusal): refusal.requestID
        case .modelUnavailable(let refusal): refusal.requestID
        case .gatewayAnswered(let answer): answer.requestID
        case .httpError, .blockedByGateway, .contextWindowExceeded:
            Self.noted.withLock { [hashValue] noted in noted.last { $0.error == hashValue }?.id }
        default: nil
        }
    }

    /// By the error's hash, so that no answer is kept.
    private static let noted = Mutex<[(error: Int, id: String)]>([])

    /// Remembers the name for an error that has no place for it.
    func note(requestID: String) {
        switch self {
        case .httpError, .blockedByGateway, .contextWindowExceeded:
            Self.noted.withLock { [hashValue] noted in
                noted.append((hashValue, requestID))
                if noted.count > 100 { noted.removeFirst() }
            }
        default: break
        }
    }
}
