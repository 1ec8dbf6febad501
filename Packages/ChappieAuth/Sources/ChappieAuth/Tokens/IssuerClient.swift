import ChappieCore
import FoundationEssentials
import HTTPTypes

/// Talks to the authorization server: one request out, one whole answer back.
struct IssuerClient: Sendable {
    let transport: any HTTPTransport
    let clock: any ChappieClock

    /// Why there is no answer.
    enum Failure: Error, Sendable {
        case cancelled
        case transport(ChappieTransportError)
        /// Something a transport should not throw; only its type is safe to name.
        case unexpected(String)
    }

    /// Sends `request`, at most `limit` from start to end; `nil` leaves it to the transport's own deadlines.
    func send(_ request: HTTPExchangeRequest, within limit: Duration? = nil) async throws(Failure) -> IssuerAnswer {
        do {
            guard let limit else { return try await exchange(request) }
            return try await withThrowingTaskGroup(of: IssuerAnswer.self) { group in
                group.addTask { try await exchange(request) }
                group.addTask {
                    try await clock.sleep(for: limit)
                    throw ChappieTransportError(
                        .timedOut, stage: .responseHead, host: request.url.hostAndPort,
                        reason: "no whole answer within \(limit.components.seconds) s")
                }
                defer { group.cancelAll() }
                guard let answer = try await group.next() else { throw CancellationError() }
                return answer
            }
        } catch is CancellationError {
            throw .cancelled
        } catch let error as ChappieTransportError {
            throw .transport(error)
        } catch {
            throw .unexpected("\(type(of: error))")
        }
    }

    private func exchange(_ request: HTTPExchangeRequest) async throws -> IssuerAnswer {
        let response = try await transport.send(request)
        let body = try await response.body.collect(upTo: IssuerAnswer.maximumSize, host: request.url.hostAndPort)
        return IssuerAnswer(status: response.status.code, headerFields: response.headerFields, body: body)
    }
}

extension IssuerClient.Failure {
    /// The failure in the terms of the public API.
    var authError: ChappieAuthError {
        switch self {
        case .cancelled: .cancelledSignIn
        case .transport(let error): .networkFailure(isTransient ? error.message : error.messageWithAdvice)
        case .unexpected(let type): .unknown("The network layer failed in an unexpected way (\(type)).")
        }
    }

    /// Whether the same request may well succeed in a moment.
    var isTransient: Bool {
        guard case .transport(let error) = self else { return false }
        switch error.code {
        case .unknownHost, .connectFailed, .timedOut, .connectionLost: return true
        default: return false
        }
    }
}

extension ChappieTransportError {
    fileprivate var message: String { errorDescription ?? "The network failed." }

    /// What lasts until somebody mends it (a certificate, a proxy) needs more than the advice to try again.
    fileprivate var messageWithAdvice: String {
        [message, recoverySuggestion].compactMap(\.self).joined(separator: " ")
    }
}

extension URL {
    /// Host and, where one is written, port: what an error may say about an address.
    var hostAndPort: String { (host() ?? "") + (port.map { ":\($0)" } ?? "") }
}
