#if canImport(ChappieCurl)
    @_spi(ChappieInternals) public import ChappieCore
    @_spi(ChappieInternals) public import ChappieCurl
    public import HTTPTypes

    /// A ``WebSocketTransport`` with our own RFC 6455 codec on connections that libcurl opens. Proxy, TLS, trust and
    /// name resolution are the same as for HTTP. One thread serves any number of connections.
    ///
    /// ```swift
    /// let transport = CurlWebSocketTransport()
    /// if case .opened(let connection, _) = try await transport.open(url, headerFields: [:]) {
    ///     try await connection.send(.text("hello"))
    ///     let inbound = try await connection.receive(within: .seconds(30))
    ///     await connection.close(.normal)
    /// }
    /// ```
    ///
    /// - TLS is 1.2 or newer, verified against the system's certificate authorities and the file
    ///   ``ChappieNetworkPolicy/extraCAFile``. Plain `ws` and `http` are allowed only to `localhost`, 127.0.0.0/8 and
    ///   `::1`. An http proxy is always asked for a tunnel (CONNECT).
    /// - ``ChappieDeadlines/connect`` limits the time until the connection is open, and ``ChappieDeadlines/upgrade``
    ///   the time until the server answers the upgrade. Redirects are not followed. Like every status except 101, they
    ///   are a refusal, whose body is read for at most 5 seconds and up to 64 KiB.
    /// - A message after silence is delivered at once. During a burst of messages, the socket is read every 2 ms. If the
    ///   network has 64 exchanges and connections or more, all of their sockets are read every 5 ms.
    /// - At most about 4 MiB are read ahead of the receiver, except that a message that was begun is read to its end.
    ///   The socket, including the peer's pings, then waits for the receiver. A sender waits while 1 MiB is queued,
    ///   unless its message is the only one.
    /// - The client pings the peer after half of ``ChappieDeadlines/liveness`` without a byte from it, and gives up
    ///   after all of it. A closing handshake has 5 seconds.
    /// - `send` refuses a message over 16 MiB with code `.bodyTooLarge`, and sends no part of it. If the server sends a
    ///   frame over 16 MiB or a message over 64 MiB, the connection ends with the same code and close code 1009.
    public final class CurlWebSocketTransport: WebSocketTransport {
        private let network: CurlNetwork
        private let offersCompression: Bool

        /// Creates a transport with its own thread. This opens nothing and can't fail. Each opening reports an invalid
        /// policy as its error.
        ///
        /// - Parameters:
        ///   - policy: The proxy, the trust and the deadlines.
        ///   - offersCompression: See ``init(network:offersCompression:)``.
        public convenience init(policy: ChappieNetworkPolicy = .default, offersCompression: Bool = true) {
            self.init(network: CurlNetwork(policy: policy), offersCompression: offersCompression)
        }

        /// Creates a transport that uses the thread and the policy of `network`, which other transports may share.
        ///
        /// - Parameters:
        ///   - network: The thread and the policy.
        ///   - offersCompression: Whether messages may be compressed (permessage-deflate, RFC 7692) if the server
        ///     agrees. The default is `true`.
        public init(network: CurlNetwork, offersCompression: Bool = true) {
            self.network = network
            self.offersCompression = offersCompression
        }

        /// Ends every connection with code `.unavailable`, and ends the thread of the network. Returns without waiting
        /// for this to finish. Later openings fail with the same code.
        public func shutdown() { network.shutdown() }

        /// Reports a problem that would stop every opening of `url` before anything is sent: the address, the proxy
        /// setting, or the extra CA file. Opens no connection.
        ///
        /// - Throws: ``ChappieTransportError`` with stage `.configuration`.
        public func check(_ url: URL) throws(ChappieTransportError) { _ = try network.route(to: url, for: .webSocket) }

        /// Opens a WebSocket and returns when the server has answered the handshake.
        ///
        /// - Throws: ``ChappieTransportError``, with stage `.configuration` before anything is sent, `.connect` or
        ///   `.tls` if the connection fails, `.responseHead` if the answer is missing or doesn't answer a handshake.
        ///   `CancellationError` as soon as the task is cancelled. No status code is an error.
        public func open(_ url: URL, headerFields: HTTPFields) async throws -> WebSocketOpening {
            let route = try network.route(to: url, for: .webSocket)
            let session = try WebSocketSession(
                opening: url, at: route.origin, headerFields: headerFields, offersCompression: offersCompression,
                deadlines: network.policy.deadlines)
            try Task.checkCancellation()
            let shared = SharedWebSocketSession(session)
            try CurlWebSocketMover(shared, on: route, network: network).start()
            return try await shared.opening().opening(of: shared)
        }
    }
#endif
