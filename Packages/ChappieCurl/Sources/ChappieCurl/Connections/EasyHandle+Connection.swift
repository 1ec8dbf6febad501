import CCurl

extension EasyHandle {
    /// What reading from a connection gave.
    public enum Received: Sendable {
        /// That many bytes, at least one.
        case bytes(Int)
        /// Nothing for now: wait until the socket is readable.
        case nothing
        /// The peer has ended its side.
        case end
        /// The connection broke.
        case failed
    }

    /// What writing to a connection did.
    public enum Sent: Sendable {
        /// It took that many bytes, at least one.
        case bytes(Int)
        /// It takes nothing for now: wait until the socket is writable, and offer the same bytes again, where they are,
        /// and not fewer (TLS may have made a record of them).
        case nothing
        case failed
    }

    /// Makes the handle open a connection to the route's origin and nothing more.
    ///
    /// The tunnel through an http proxy is asked for in any case: what follows is no plain HTTP, which such a proxy would
    /// have to understand.
    public func connectOnly(_ route: CurlRoute, connectDeadline: Duration) {
        follow(route, connectDeadline: connectDeadline)
        set(CURLOPT_URL, route.origin.prefix + "/")
        set(CURLOPT_CONNECT_ONLY, true)
        set(CURLOPT_HTTPPROXYTUNNEL, true)
        // Nothing else can be spoken on such a connection, and a server must not be offered it.
        set(CURLOPT_HTTP_VERSION, Int(CURL_HTTP_VERSION_1_1))
        set(CURLOPT_FRESH_CONNECT, true)
        // The least there is: curl needs this buffer for nothing here, and would keep it as long as the connection.
        set(CURLOPT_BUFFERSIZE, 1024)
    }

    /// The connection stands: from now on the size of curl's buffer does nothing but bound a single read.
    func connected(on socket: CInt) {
        set(CURLOPT_BUFFERSIZE, 64 << 10)
        ccurl_limit_unsent(socket, 128 << 10)
    }

    /// Reads from a connection that stands.
    public func receive(into buffer: UnsafeMutableRawBufferPointer) -> Received {
        var count = 0
        switch curl_easy_recv(raw, buffer.baseAddress, buffer.count, &count) {
        case CURLE_OK: return count > 0 ? .bytes(count) : .end
        case CURLE_AGAIN: return .nothing
        default: return .failed
        }
    }

    /// Writes to a connection that stands.
    public func send(_ bytes: UnsafeRawBufferPointer) -> Sent {
        guard !bytes.isEmpty else { return .nothing }
        var count = 0
        switch curl_easy_send(raw, bytes.baseAddress, bytes.count, &count) {
        case CURLE_OK: return count > 0 ? .bytes(count) : .nothing
        case CURLE_AGAIN: return .nothing
        default: return .failed
        }
    }

    /// The socket of a connection that stands.
    var activeSocket: CInt? {
        var socket = CURL_SOCKET_BAD
        guard ccurl_easy_get_socket(raw, CURLINFO_ACTIVESOCKET, &socket) == CURLE_OK, socket != CURL_SOCKET_BAD else {
            return nil
        }
        return socket
    }
}
