import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import FoundationEssentials
import HTTPTypes

/// Says what a failed exchange means; pure.
struct ErrorMapping: Sendable {
    let table: ChappieErrorTable
    /// The backend's, for errors.
    let host: String

    /// How much of an error body is kept.
    static let bodyLimit = 64 << 10

    /// What to do about a response that is not a success.
    enum Verdict: Sendable {
        /// Worth another try after a pause; the error is for when there are no tries left.
        case rateLimited(ChappieClientError)
        /// The server's own trouble: the transport policy says whether the request is sent again.
        case troubled(ChappieClientError)
        /// The same request, whole and on a new connection, will do.
        case conversationLost(ChappieClientError)
        case final(ChappieClientError)

        var error: ChappieClientError {
            switch self {
            case .rateLimited(let error), .troubled(let error), .conversationLost(let error), .final(let error): error
            }
        }
    }

    func verdict(status: Int, headerFields: HTTPFields, body: [UInt8]) -> Verdict {
        let text = TokenScrubber.clean(String(decoding: body, as: UTF8.self))
        let error = ChappieResponseError(body: (try? ChappieJSON(parsing: text)) ?? .null)
        let unmapped = ChappieClientError.httpError(
            status, String(decoding: text.utf8.prefix(Self.bodyLimit), as: UTF8.self))
        switch table.meaning(of: error.type, error.code) {
        case .usageLimitReached: return .final(.usageLimitReached(usageLimit(error, headerFields)))
        case .contextWindowExceeded: return .final(.contextWindowExceeded)
        case .rateLimited: return .rateLimited(unmapped)
        case .conversationLost: return .conversationLost(unmapped)
        case .overloaded, .refused: return .final(unmapped)
        case nil: break
        }
        switch status {
        case 429: return .rateLimited(unmapped)
        // RFC 9110, 15.5.9: the server gave up waiting for the request; the client may send it again.
        case 408, 500...: return .troubled(unmapped)
        default: return .final(unmapped)
        }
    }

    /// What a response that ended in an error means.
    func verdict(failed response: ChappieResponse) -> Verdict {
        let response = Self.withoutTokens(response)
        switch table.meaning(of: response.error?.code, response.error?.type) {
        case .usageLimitReached:
            guard let error = response.error else { return .final(.responseFailed(response)) }
            return .final(.usageLimitReached(usageLimit(error, [:])))
        case .contextWindowExceeded: return .final(.contextWindowExceeded)
        case .rateLimited: return .rateLimited(.responseFailed(response))
        case .conversationLost: return .conversationLost(.responseFailed(response))
        case .overloaded, .refused, nil: return .final(.responseFailed(response))
        }
    }

    private static func withoutTokens(_ response: ChappieResponse) -> ChappieResponse {
        guard var object = response.raw.object, let error = object["error"],
            let clean = try? ChappieJSON(parsing: TokenScrubber.clean(error.serialized()))
        else { return response }
        object["error"] = clean
        var response = response
        response.raw = .object(object)
        response.error = response.error.map { _ in ChappieResponseError(clean) }
        return response
    }

    /// What an error inside the stream means: the HTTP error that it stands for. One without a status is the server's
    /// trouble: nothing more comes of that attempt.
    func verdict(rejected event: ResponsesErrorEvent) -> Verdict {
        verdict(
            status: event.status ?? 500, headerFields: Self.fields(of: event), body: event.raw.serializedBytes())
    }

    /// The members of an error's `headers` that say something here. No others: header fields trap when they are too many.
    private static func fields(of event: ResponsesErrorEvent) -> HTTPFields {
        let members = event.headers.object?.members ?? []
        let telling = members.lazy.filter {
            let name = $0.name.lowercased()
            return name == "retry-after" || name.hasPrefix("x-codex-")
        }
        var fields: HTTPFields = [:]
        for member in telling.prefix(fieldLimit) {
            guard let name = HTTPField.Name(member.name),
                let value = member.value.string ?? member.value.double.map({ String($0) }),
                value.utf8.count <= fieldValueLimit
            else { continue }
            fields[name] = value
        }
        return fields
    }

    private static let fieldLimit = 100
    /// In bytes.
    private static let fieldValueLimit = 4 << 10

    private func usageLimit(_ error: ChappieResponseError, _ fields: HTTPFields) -> ChappieUsageLimit {
        let family = fields[.activeLimit].map { $0.split(separator: "_").joined(separator: "-") }
        return ChappieUsageLimit(
            type: error.type ?? error.code ?? "usage_limit_reached", message: error.message, plan: error.plan,
            resetsAt: error.resetsAt, resetsInSeconds: error.resetsInSeconds,
            rateLimit: family.flatMap { ChappieUsageLimitSnapshot(headerFields: fields, family: $0) }
                ?? ChappieUsageLimitSnapshot(headerFields: fields))
    }

    // MARK: Errors from below

    /// The client's error for whatever a lower layer threw. `CancellationError` stays what it is.
    static func clientError(_ error: any Error) -> any Error {
        switch error {
        case let error as ChappieClientError: error
        case is CancellationError: error
        case let error as AuthorizationError: clientError(authorization: error)
        case let error as ChappieTransportError: ChappieClientError.transportFailed(error)
        case let error as CredentialStoreError: ChappieClientError.credentialStoreFailed(error)
        default: error
        }
    }

    private static func clientError(authorization error: AuthorizationError) -> ChappieClientError {
        switch error {
        case .missingCredential: .missingCredential
        case .missingRefreshToken: .missingRefreshToken
        case .missingAccountID: .missingAccountID
        case .reauthenticationRequired(let reason): .reauthenticationRequired(reason)
        case .store(let error): .credentialStoreFailed(error)
        case .auth(let error): .renewalFailed(error)
        case .foreignOrigin(let host):
            .transportFailed(
                ChappieTransportError(
                    .invalidURL, stage: .configuration, host: host,
                    reason: "requests with a sign-in go to the configured backend only"))
        }
    }

    /// The client's error for a stream that ended wrongly.
    static func clientError(_ error: ResponsesStreamError, host: String, isEventStream: Bool) -> ChappieClientError {
        switch error {
        case .endedEarly(0) where !isEventStream: .invalidResponse
        case .endedEarly:
            .transportFailed(
                ChappieTransportError(
                    .connectionLost, stage: .responseBody, host: host,
                    reason: "the stream ended before the answer was complete"))
        case .eventTooLarge: .invalidResponse
        }
    }
}
