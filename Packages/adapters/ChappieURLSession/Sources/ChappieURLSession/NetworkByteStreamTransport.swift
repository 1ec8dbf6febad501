#if canImport(Network)
    @_spi(ChappieInternals) public import ChappieCore
    public import ChappieWebSocket
    import Dispatch
    import Foundation
    import Network
    import Security
    import Synchronization

    /// A ``ByteStreamTransport`` over Network.framework, for WebSockets on Apple's platforms.
    ///
    /// ```swift
    /// let transport = StreamWebSocketTransport(over: NetworkByteStreamTransport())
    /// ```
    ///
    /// TLS, trust and proxies follow the policy, as in ``URLSessionHTTPTransport``. A VPN of the system applies.
    ///
    /// - A connection that can't be opened now fails at once. It doesn't wait until the network changes.
    /// - The environment and the extra CA file are read for each connection.
    /// - Network.framework offers no strict form of ``ChappieNetworkPolicy/Proxy/none``. If there is no direct
    ///   connection, it tries the proxies of the system's settings.
    public final class NetworkByteStreamTransport: ByteStreamTransport {
        private let policy: ChappieNetworkPolicy

        /// Creates a transport. This opens nothing and can't fail. Each connection reports an invalid policy as its
        /// error.
        public init(policy: ChappieNetworkPolicy = .default) { self.policy = policy }

        /// Connects, and returns when the connection is ready for bytes.
        ///
        /// - Throws: ``ChappieTransportError``, with stage `.configuration` if the policy can't be followed, and
        ///   `.connect` or `.tls` if there is no connection. `CancellationError` as soon as the task is cancelled.
        public func connect(host: String, port: Int, isSecure: Bool) async throws -> any ByteStream {
            try Task.checkCancellation()
            let place = host.contains(":") ? "[\(host)]" : host
            guard let url = URL(string: "\(isSecure ? "https" : "http")://\(place):\(port)"),
                let number = UInt16(exactly: port), let endpoint = NWEndpoint.Port(rawValue: number)
            else {
                throw ChappieTransportError(
                    .invalidURL, stage: .configuration, host: "", reason: "the address can't be used")
            }
            let origin = try Origin(of: url, for: .webSocket)
            let settings = try SessionSettings(policy)
            let proxy = try ProxySelection(policy.proxy, for: origin, environment: settings.variables)
            let connection = NWConnection(
                host: NWEndpoint.Host(host), port: endpoint,
                using: try settings.parameters(proxy: proxy, for: origin))
            let opening = Promise<Void>()
            connection.stateUpdateHandler = { state in
                switch state {
                case .ready: opening.fulfil(.success(()))
                // A connection waits where a later attempt might succeed, even if nothing listens.
                case .waiting(let error), .failed(let error):
                    let failure = SessionFailure(error, isProxied: proxy != nil)
                    opening.fulfil(.failure(failure.error(at: .connect, host: origin.label)))
                default: break
                }
            }
            connection.start(queue: DispatchQueue(label: "chappie.network"))
            do {
                try await opening.value()
            } catch {
                connection.cancel()
                throw error
            }
            return NetworkByteStream(connection)
        }
    }

    /// An open connection. The system calls each completion exactly once, also after ``close()``.
    private final class NetworkByteStream: ByteStream {
        private let connection: NWConnection
        private let isAtEnd = Atomic(false)

        init(_ connection: NWConnection) { self.connection = connection }

        func send(_ bytes: [UInt8]) async throws {
            try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
                connection.send(
                    content: Data(bytes),
                    completion: .contentProcessed { error in
                        continuation.resume(with: error.map { .failure($0) } ?? .success(()))
                    })
            }
        }

        func receive(atMost limit: Int) async throws -> [UInt8]? {
            // The last bytes may have arrived together with the end, and nothing may be received after it.
            guard !isAtEnd.load(ordering: .relaxed) else { return nil }
            return try await withCheckedThrowingContinuation { continuation in
                connection.receive(minimumIncompleteLength: 1, maximumLength: limit) { content, _, isComplete, error in
                    self.isAtEnd.store(isComplete, ordering: .relaxed)
                    if let content, !content.isEmpty {
                        // If there is an error, the next call gets it.
                        continuation.resume(returning: [UInt8](content))
                    } else if let error {
                        continuation.resume(throwing: error)
                    } else {
                        continuation.resume(returning: nil)
                    }
                }
            }
        }

        func close() { connection.cancel() }
    }

    extension SessionFailure {
        /// Creates a failure from the error of a connection that could not be opened.
        ///
        /// - Parameter isProxied: Whether the connection leads to a proxy, so that all but TLS concerns the proxy.
        init(_ error: NWError, isProxied: Bool) {
            if case .tls(let status) = error {
                self.init(code: Self.meaning(ofTLS: status).rawValue)
            } else if isProxied {
                self = .failed(.proxyFailed, .connect, "the proxy can't be reached, or refused")
            } else if case .dns = error {
                self.init(code: URLError.Code.cannotFindHost.rawValue)
            } else if case .posix(let code) = error {
                self.init(code: Self.meaning(of: code).rawValue)
            } else {
                self = .lost
            }
        }

        private static func meaning(of code: POSIXErrorCode) -> URLError.Code {
            switch code {
            case .ENETDOWN, .ENETUNREACH: .notConnectedToInternet
            case .ETIMEDOUT: .timedOut
            case .ECONNRESET, .ECONNABORTED, .EPIPE, .ENOTCONN: .networkConnectionLost
            default: .cannotConnectToHost
            }
        }

        private static func meaning(ofTLS status: OSStatus) -> URLError.Code {
            switch status {
            case errSSLCertExpired: .serverCertificateHasBadDate
            case errSSLCertNotYetValid: .serverCertificateNotYetValid
            case errSSLUnknownRootCert, errSSLNoRootCert: .serverCertificateHasUnknownRoot
            case errSSLXCertChainInvalid, errSSLBadCert, errSSLHostNameMismatch: .serverCertificateUntrusted
            case errSSLClosedAbort, errSSLClosedGraceful, errSSLClosedNoNotify: .networkConnectionLost
            default: .secureConnectionFailed
            }
        }
    }
#endif
