import CCurl
@_spi(ChappieInternals) import ChappieCore

/// A member whose handle performs an HTTP exchange. Where these answer `false`, curl stops the transfer.
@_spi(ChappieInternals) public protocol NetworkTransfer: NetworkMember {
    /// The connection stands and the request is about to go out.
    func connected() -> Bool
    /// Fills `space` with the next piece of the request body.
    ///
    /// - Returns: how many bytes; 0 at its end.
    func provideBody(_ space: UnsafeMutableRawBufferPointer) -> Int
    /// One line of a response head, of whatever version of HTTP, or of the trailers.
    func receivedHeaderLine(_ line: UnsafeRawBufferPointer) -> Bool
    /// Answering `false` makes curl wait for ``EasyHandle/resume()`` and offer the same bytes again.
    func receivedBody(_ bytes: UnsafeRawBufferPointer) -> Bool
}

/// curl's report on its work on a handle.
@_spi(ChappieInternals) public struct CurlResult: Sendable {
    let code: CURLcode

    /// It did all that it was asked to.
    public var isSuccess: Bool { code == CURLE_OK }
    /// In place of curl's own word, where a deadline of ours has passed.
    public static var timedOut: CurlResult { CurlResult(code: CURLE_OPERATION_TIMEDOUT) }
}

/// One curl easy handle with what must live as long as it does. Stays on the thread that made it.
@_spi(ChappieInternals) public final class EasyHandle {
    let raw: UnsafeMutableRawPointer
    private let errorText = UnsafeMutablePointer<CChar>.allocate(capacity: Int(CURL_ERROR_SIZE))
    private var headerList: UnsafeMutablePointer<curl_slist>?
    /// The receiver of the callbacks.
    fileprivate var transfer: (any NetworkTransfer)?
    /// The local port of the transfer's connection, which names it; `nil` before the request goes out.
    fileprivate(set) var localPort: CInt?
    private(set) var distrustsConnection = false

    /// `nil` when curl has no memory left.
    init?() {
        errorText.initialize(repeating: 0, count: Int(CURL_ERROR_SIZE))
        guard let raw = curl_easy_init() else {
            errorText.deallocate()
            return nil
        }
        self.raw = raw
        ccurl_easy_set_pointer(raw, CURLOPT_ERRORBUFFER, errorText)
    }

    deinit {
        curl_easy_cleanup(raw)
        curl_slist_free_all(headerList)
        errorText.deallocate()
    }

    func set(_ option: CURLoption, _ value: Int) { ccurl_easy_set_long(raw, option, value) }
    func set(_ option: CURLoption, _ value: Bool) { set(option, value ? 1 : 0) }
    /// curl copies the text.
    func set(_ option: CURLoption, _ value: String) { ccurl_easy_set_pointer(raw, option, value) }

    /// A number that curl knows about its last work; 0 when it does not.
    func long(_ info: CURLINFO) -> Int {
        var value = 0
        ccurl_easy_get(raw, info, &value)
        return value
    }

    /// curl's text about its last failure. It may name the URL or the proxy: for classification, and for people only
    /// where its wording is known to hold neither.
    var failureText: String { String(cString: errorText) }

    // MARK: What every use of a route has in common

    /// - Parameter connectDeadline: within this time curl tries every address of the host in turn, so it has to know it.
    private func follow(_ route: CurlRoute, connectDeadline: Duration) {
        set(CURLOPT_PROTOCOLS_STR, route.origin.scheme.rawValue)
        set(CURLOPT_DISALLOW_USERNAME_IN_URL, true)
        let oldest = route.minimumTLS == .tls13 ? CURL_SSLVERSION_TLSv1_3 : CURL_SSLVERSION_TLSv1_2
        for version in [CURLOPT_SSLVERSION, CURLOPT_PROXY_SSLVERSION] { set(version, Int(oldest)) }
        for verification in [CURLOPT_SSL_VERIFYPEER, CURLOPT_PROXY_SSL_VERIFYPEER] { set(verification, 1) }
        for verification in [CURLOPT_SSL_VERIFYHOST, CURLOPT_PROXY_SSL_VERIFYHOST] { set(verification, 2) }
        route.trust?.bundle.withUnsafeBytes { bytes in
            var blob = curl_blob(
                data: UnsafeMutableRawPointer(mutating: bytes.baseAddress), len: bytes.count,
                flags: UInt32(CURL_BLOB_COPY))
            ccurl_easy_set_pointer(raw, CURLOPT_CAINFO_BLOB, &blob)
            ccurl_easy_set_pointer(raw, CURLOPT_PROXY_CAINFO_BLOB, &blob)
        }
        // Empty, not unset: an unset one is looked for in the environment.
        set(CURLOPT_PROXY, route.proxy?.url ?? "")
        set(CURLOPT_NOPROXY, route.proxy?.excluding ?? "")
        set(CURLOPT_CONNECTTIMEOUT_MS, min(max(1, connectDeadline.nanoseconds / 1_000_000), 1_000_000_000))
        // A proxy's answer to CONNECT is no response.
        set(CURLOPT_SUPPRESS_CONNECT_HEADERS, true)
        set(CURLOPT_TCP_KEEPALIVE, true)
        set(CURLOPT_TCP_NODELAY, true)
        set(CURLOPT_NOSIGNAL, true)
        // Letting go of a handle whose name is being resolved would otherwise wait for the resolver, and with it
        // everything else on the thread.
        set(CURLOPT_QUICK_EXIT, true)
    }

    // MARK: A transfer

    /// Sets every option of an exchange, whose events go to `transfer`.
    ///
    /// - Parameters:
    ///   - url: as ``CurlRoute/target(of:)`` has it.
    ///   - headerLines: in curl's notation: `Name: value`, `Name;` for an empty value, `Name:` to suppress one that curl
    ///     would add.
    ///   - bodyBytes: `nil` for no body at all, which is not the same as an empty one (`content-length: 0`).
    public func perform(
        _ method: String, _ url: String, headerLines: [String], bodyBytes: Int?, on route: CurlRoute,
        connectDeadline: Duration, for transfer: any NetworkTransfer
    ) {
        self.transfer = transfer
        set(CURLOPT_URL, url)
        set(CURLOPT_PATH_AS_IS, true)
        set(CURLOPT_HTTP_VERSION, Int(CURL_HTTP_VERSION_2TLS))
        // The method comes last: the options for bodies each bring one of their own.
        if let bodyBytes {
            set(CURLOPT_POST, true)
            set(CURLOPT_POSTFIELDSIZE, bodyBytes)
            // Without data of its own and with a size, curl asks the read callback; for nothing it needs no callback.
            if bodyBytes == 0 { set(CURLOPT_COPYPOSTFIELDS, "") }
        } else {
            set(method == "HEAD" ? CURLOPT_NOBODY : CURLOPT_HTTPGET, true)
        }
        set(CURLOPT_CUSTOMREQUEST, method)
        for line in headerLines {
            // On failure the list so far stays as it was: out of memory, and curl will say so soon enough.
            headerList = curl_slist_append(headerList, line) ?? headerList
        }
        ccurl_easy_set_pointer(raw, CURLOPT_HTTPHEADER, headerList)
        // Redirects are ours to judge.
        set(CURLOPT_FOLLOWLOCATION, false)
        // As large as the curl program's: one system call for many small events.
        set(CURLOPT_BUFFERSIZE, 102_400)
        follow(route, connectDeadline: connectDeadline)
        ccurl_easy_set_callbacks(
            raw, receiveHeaderLine, receiveBody, provideBody, confirmConnection,
            Unmanaged.passUnretained(self).toOpaque())
    }

    /// Keeps other transfers off this one's connection, which may be dead: by itself curl would reuse an HTTP/2 connection
    /// as long as nothing says that it has ended.
    public func distrustConnection() { distrustsConnection = true }

    /// Lets a transfer go on that had to wait. curl offers what it held back from within this call.
    public func resume() { curl_easy_pause(raw, CURLPAUSE_CONT) }

    // MARK: A connection

    /// The result of reading from a connection.
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

    /// The result of writing to a connection.
    public enum Sent: Sendable {
        /// It took that many bytes, at least one.
        case bytes(Int)
        /// It takes nothing for now: wait until the socket is writable, and offer the same bytes again, where they are,
        /// and not fewer (TLS may have made a record of them).
        case nothing
        /// The connection broke.
        case failed
    }

    /// Makes the handle open a connection to the route's origin and nothing more.
    ///
    /// The tunnel through an http proxy is asked for in any case: what follows is no plain HTTP, which such a proxy would
    /// have to understand.
    public func connect(_ route: CurlRoute, deadline: Duration) {
        follow(route, connectDeadline: deadline)
        set(CURLOPT_URL, route.target(of: nil))
        set(CURLOPT_CONNECT_ONLY, true)
        set(CURLOPT_HTTPPROXYTUNNEL, true)
        // Nothing else can be spoken on such a connection, and a server must not be offered it.
        set(CURLOPT_HTTP_VERSION, Int(CURL_HTTP_VERSION_1_1))
        set(CURLOPT_FRESH_CONNECT, true)
        // Opening one would otherwise close each that was opened two minutes ago: curl takes the others for idle.
        set(CURLOPT_MAXAGE_CONN, 1_000_000_000)
        // The least there is: curl needs this buffer for nothing here, and would keep it as long as the connection.
        set(CURLOPT_BUFFERSIZE, 1024)
    }

    /// The connection stands: from now on the size of curl's buffer does nothing but bound a single read. The kernel takes
    /// over little that it has not sent yet, so that its taking more means that the network does.
    func connected(on socket: CInt) {
        set(CURLOPT_BUFFERSIZE, 64 << 10)
        var unsent: CInt = 128 << 10
        setsockopt(socket, CInt(IPPROTO_TCP), TCP_NOTSENT_LOWAT, &unsent, socklen_t(MemoryLayout<CInt>.size))
    }

    /// Reads from a connection that stands.
    public func receive(into buffer: UnsafeMutableRawBufferPointer) -> Received {
        var count = 0
        switch curl_easy_recv(raw, buffer.baseAddress, buffer.count, &count) {
        case CURLE_OK: return count > 0 ? .bytes(count) : .end
        case CURLE_AGAIN: return .nothing
        // curl has found that the peer has ended the connection, with nothing left to read, and closed it.
        case CURLE_UNSUPPORTED_PROTOCOL: return .end
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
        ccurl_easy_get(raw, CURLINFO_ACTIVESOCKET, &socket)
        return socket == CURL_SOCKET_BAD ? nil : socket
    }
}

// The functions that curl calls, on the loop's thread: each finds its transfer and passes on.

private func easyHandle(_ context: UnsafeMutableRawPointer?) -> EasyHandle? {
    context.map { Unmanaged.fromOpaque($0).takeUnretainedValue() }
}

private func transfer(_ context: UnsafeMutableRawPointer?) -> (any NetworkTransfer)? { easyHandle(context)?.transfer }

private func receiveHeaderLine(
    _ bytes: UnsafeMutablePointer<CChar>?, _ size: Int, _ count: Int, _ context: UnsafeMutableRawPointer?
) -> Int {
    let line = UnsafeRawBufferPointer(start: bytes, count: size * count)
    // No line has this length, so that curl ends the transfer.
    return transfer(context)?.receivedHeaderLine(line) == true ? line.count : -1
}

private func receiveBody(
    _ bytes: UnsafeMutablePointer<CChar>?, _ size: Int, _ count: Int, _ context: UnsafeMutableRawPointer?
) -> Int {
    let piece = UnsafeRawBufferPointer(start: bytes, count: size * count)
    return transfer(context)?.receivedBody(piece) == true ? piece.count : Int(CURL_WRITEFUNC_PAUSE)
}

private func provideBody(
    _ bytes: UnsafeMutablePointer<CChar>?, _ size: Int, _ count: Int, _ context: UnsafeMutableRawPointer?
) -> Int {
    let space = UnsafeMutableRawBufferPointer(start: bytes, count: size * count)
    return transfer(context)?.provideBody(space) ?? Int(CURL_READFUNC_ABORT)
}

private func confirmConnection(
    _ context: UnsafeMutableRawPointer?, _ remoteAddress: UnsafeMutablePointer<CChar>?,
    _ localAddress: UnsafeMutablePointer<CChar>?, _ remotePort: CInt, _ localPort: CInt
) -> CInt {
    guard let handle = easyHandle(context), handle.transfer?.connected() == true else {
        return CInt(CURL_PREREQFUNC_ABORT)
    }
    handle.localPort = localPort
    return CInt(CURL_PREREQFUNC_OK)
}
