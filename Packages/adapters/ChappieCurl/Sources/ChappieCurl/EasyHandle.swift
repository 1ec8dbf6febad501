import CCurl
@_spi(ChappieInternals) public import ChappieCore

/// A member of a ``NetworkLoop``, which consists of one easy handle and its owner. curl either performs the handle as
/// an HTTP transfer (see ``NetworkTransfer``), or only opens a connection (resolving, proxy, TLS). The owner then reads
/// and writes the connection through ``EasyHandle/receive(into:)`` and ``EasyHandle/send(_:)``.
///
/// The loop calls these methods on its own thread, never two at the same time. It visits a member only for a reason:
/// curl has worked on it, its socket is ready, another thread woke it, or its deadline has passed. Thousands of idle
/// members cost nothing.
@_spi(ChappieInternals) public protocol NetworkMember: AnyObject, Sendable {
    /// Whether curl only opens the connection.
    var isConnection: Bool { get }

    /// Sets up the new handle. Returns whether the loop keeps it. After `false`, the handle is destroyed unused, and
    /// the member has already informed its own side.
    func joined(_ handle: EasyHandle) -> Bool

    /// Does the member's work, if there is any, and returns what the member waits for next.
    func visited(_ handle: EasyHandle, _ visit: LoopVisit) -> LoopVerdict

    /// Handles the end of the transfer, or the failure to open the connection. The handle is destroyed after this call.
    func ended(_ handle: EasyHandle, with result: CurlResult)

    /// Handles the end of the loop. The handle, if there ever was one, is destroyed.
    func loopStopped()
}

/// The state of the loop at a visit of a member.
@_spi(ChappieInternals) public struct LoopVisit {
    /// Whether a connection is open, including TLS and the tunnel. Before that it can't be read or written.
    public let isConnected: Bool
    /// Whether a read from the connection may return something.
    public let isReadable: Bool
    /// The time by the loop's clock.
    public let now: Int
    /// A buffer of 64 KiB that all connections of a loop share. Its content is lost after the visit.
    public let buffer: UnsafeMutableRawBufferPointer
    /// Calls a closure that resumes a task, at the end of the round. The threads of the tasks then wake up once for all
    /// members.
    public let deliver: (@escaping @Sendable () -> Void) -> Void
}

/// A member whose handle performs an HTTP exchange. curl stops the transfer if ``connected()`` or
/// ``receivedHeaderLine(_:)`` returns `false`.
@_spi(ChappieInternals) public protocol NetworkTransfer: NetworkMember {
    /// Handles the moment when the connection is open and the request is about to be sent.
    func connected() -> Bool
    /// Fills `space` with the next part of the request body.
    ///
    /// - Returns: The number of bytes, or 0 at the end of the body.
    func provideBody(_ space: UnsafeMutableRawBufferPointer) -> Int
    /// Takes one line of a response head or of the trailers, in any version of HTTP.
    func receivedHeaderLine(_ line: UnsafeRawBufferPointer) -> Bool
    /// Takes a part of the response body. After `false`, curl waits for ``EasyHandle/resume()`` and offers the same
    /// bytes again.
    func receivedBody(_ bytes: UnsafeRawBufferPointer) -> Bool
}

/// The result of curl's work on a handle.
@_spi(ChappieInternals) public struct CurlResult: Sendable {
    let code: CURLcode

    /// Whether the work succeeded.
    public var isSuccess: Bool { code == CURLE_OK }
    /// The result that replaces curl's own if a deadline has passed.
    public static var timedOut: CurlResult { CurlResult(code: CURLE_OPERATION_TIMEDOUT) }
}

/// A curl easy handle together with everything that must exist as long as it does. It stays on the thread that created
/// it.
@_spi(ChappieInternals) public final class EasyHandle {
    let raw: UnsafeMutableRawPointer
    private let errorText = UnsafeMutablePointer<CChar>.allocate(capacity: Int(CURL_ERROR_SIZE))
    private let missingDescriptors = UnsafeMutablePointer<CInt>.allocate(capacity: 1)
    private var headerList: UnsafeMutablePointer<curl_slist>?
    /// The receiver of the callbacks.
    fileprivate var transfer: (any NetworkTransfer)?
    /// The local port of the transfer's connection, which identifies the connection. It is `nil` before the request is
    /// sent.
    fileprivate(set) var localPort: CInt?
    private(set) var distrustsConnection = false
    /// A closure that is called each time that curl calls the transfer.
    var transferWasCalled: () -> Void = {}
    /// Whether the server requires the request over HTTP/1.1 (RFC 9113, 7: HTTP_1_1_REQUIRED). It has not acted on the
    /// request.
    public fileprivate(set) var mustUseHTTP1 = false

    /// Creates a handle. Returns `nil` if curl has no memory left.
    init?() {
        errorText.initialize(repeating: 0, count: Int(CURL_ERROR_SIZE))
        missingDescriptors.initialize(to: 0)
        guard let raw = curl_easy_init() else {
            errorText.deallocate()
            missingDescriptors.deallocate()
            return nil
        }
        self.raw = raw
        ccurl_easy_set_pointer(raw, CURLOPT_ERRORBUFFER, errorText)
        ccurl_easy_note_failed_sockets(raw, missingDescriptors)
    }

    deinit {
        curl_easy_cleanup(raw)
        curl_slist_free_all(headerList)
        errorText.deallocate()
        missingDescriptors.deallocate()
    }

    func set(_ option: CURLoption, _ value: Int) { ccurl_easy_set_long(raw, option, value) }
    func set(_ option: CURLoption, _ value: Bool) { set(option, value ? 1 : 0) }
    /// Sets an option to a text, which curl copies.
    func set(_ option: CURLoption, _ value: String) { ccurl_easy_set_pointer(raw, option, value) }

    /// Returns a number that curl reports about its last work, or 0 if curl has none.
    func long(_ info: CURLINFO) -> Int {
        var value = 0
        ccurl_easy_get(raw, info, &value)
        return value
    }

    /// curl's text about its last failure. It may contain the URL or the proxy. Use it to classify, and show it only if
    /// its wording is known to contain neither.
    var failureText: String { String(cString: errorText) }

    /// EMFILE or ENFILE if a socket could not be opened because too many files are open, otherwise 0.
    var socketFailure: CInt { missingDescriptors.pointee }

    // MARK: Options of every route

    /// Sets the options that every route needs.
    ///
    /// - Parameter connectDeadline: The time within which curl tries every address of the host in turn.
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
        if route.trust?.usesSystemDirectory == false {
            for option in [CURLOPT_CAPATH, CURLOPT_PROXY_CAPATH] { ccurl_easy_set_pointer(raw, option, nil) }
        }
        // The value is empty and not unset, because curl looks for an unset proxy in the environment.
        set(CURLOPT_PROXY, route.proxy?.url ?? "")
        // `ProxySelection` has already applied the exclusions.
        set(CURLOPT_NOPROXY, "")
        set(CURLOPT_CONNECTTIMEOUT_MS, min(max(1, connectDeadline.nanoseconds / 1_000_000), 1_000_000_000))
        // A proxy's answer to CONNECT is not a response from the server.
        set(CURLOPT_SUPPRESS_CONNECT_HEADERS, true)
        set(CURLOPT_TCP_KEEPALIVE, true)
        set(CURLOPT_TCP_NODELAY, true)
        set(CURLOPT_NOSIGNAL, true)
        // Otherwise, destroying a handle while its name is being resolved would block this thread until the resolver
        // returns.
        set(CURLOPT_QUICK_EXIT, true)
    }

    // MARK: A transfer

    /// Sets every option of an exchange. Its events are sent to `transfer`.
    ///
    /// - Parameters:
    ///   - url: The URL, in the form of ``Origin/target(of:)``.
    ///   - headerLines: The header fields in curl's notation: `Name: value`, `Name;` for an empty value, `Name:` to
    ///     suppress a field that curl would add.
    ///   - bodyBytes: The size of the body, or `nil` for no body, which differs from an empty body (`content-length:
    ///     0`).
    ///   - isHTTP1: Whether HTTP/2 is not offered. The default is `false`.
    public func perform(
        _ method: String, _ url: String, headerLines: [String], bodyBytes: Int?, on route: CurlRoute,
        isHTTP1: Bool = false, connectDeadline: Duration, for transfer: any NetworkTransfer
    ) {
        self.transfer = transfer
        set(CURLOPT_URL, url)
        set(CURLOPT_PATH_AS_IS, true)
        set(CURLOPT_HTTP_VERSION, Int(isHTTP1 ? CURL_HTTP_VERSION_1_1 : CURL_HTTP_VERSION_2TLS))
        // A connection that was idle for longer may have died silently. A new one costs less than its deadline.
        set(CURLOPT_MAXAGE_CONN, 10)
        // The method is set last, because each of the options for bodies sets its own method.
        if let bodyBytes {
            set(CURLOPT_POST, true)
            set(CURLOPT_POSTFIELDSIZE, bodyBytes)
            // With a size and without data, curl calls the read callback. An empty body needs no callback.
            if bodyBytes == 0 { set(CURLOPT_COPYPOSTFIELDS, "") }
        } else {
            set(method == "HEAD" ? CURLOPT_NOBODY : CURLOPT_HTTPGET, true)
        }
        set(CURLOPT_CUSTOMREQUEST, method)
        for line in headerLines {
            // On failure the list is unchanged. The cause is lack of memory, which curl will soon report itself.
            headerList = curl_slist_append(headerList, line) ?? headerList
        }
        ccurl_easy_set_pointer(raw, CURLOPT_HTTPHEADER, headerList)
        // `RedirectRule` handles redirects, not curl.
        set(CURLOPT_FOLLOWLOCATION, false)
        // This is the size of the curl program's buffer. One system call then reads many small events.
        set(CURLOPT_BUFFERSIZE, 102_400)
        follow(route, connectDeadline: connectDeadline)
        ccurl_easy_set_callbacks(
            raw, receiveHeaderLine, receiveBody, provideBody, confirmConnection,
            Unmanaged.passUnretained(self).toOpaque())
    }

    /// Keeps other transfers off this transfer's connection, which may be dead. Otherwise, curl would reuse an HTTP/2
    /// connection until it learns that the connection has ended.
    public func distrustConnection() { distrustsConnection = true }

    /// Lets a paused transfer continue. During this call, curl offers the bytes that it held back.
    public func resume() { curl_easy_pause(raw, CURLPAUSE_CONT) }

    // MARK: A connection

    /// The result of a read from a connection.
    public enum Received: Sendable {
        /// The number of bytes, at least one.
        case bytes(Int)
        /// There is nothing to read now. Wait until the socket is readable.
        case nothing
        /// The peer has ended its side.
        case end
        /// The connection broke.
        case failed
    }

    /// The result of a write to a connection.
    public enum Sent: Sendable {
        /// The number of bytes that were accepted, at least one.
        case bytes(Int)
        /// Nothing can be written now. Wait until the socket is writable. Then offer at least the same bytes again, at
        /// the same address, because TLS may have made a record of them.
        case nothing
        /// The connection broke.
        case failed
    }

    /// Makes the handle only open a connection to the route's origin.
    ///
    /// An http proxy is always asked for a tunnel, because the bytes that follow are not plain HTTP, which the proxy
    /// would have to understand.
    public func connect(_ route: CurlRoute, deadline: Duration) {
        follow(route, connectDeadline: deadline)
        set(CURLOPT_URL, route.origin.target(of: nil))
        set(CURLOPT_CONNECT_ONLY, true)
        set(CURLOPT_HTTPPROXYTUNNEL, true)
        // Such a connection carries only HTTP/1.1, so HTTP/2 must not be offered to the server.
        set(CURLOPT_HTTP_VERSION, Int(CURL_HTTP_VERSION_1_1))
        set(CURLOPT_FRESH_CONNECT, true)
        // Otherwise, opening a connection would close every connection that is two minutes old, because curl treats
        // them as idle.
        set(CURLOPT_MAXAGE_CONN, 1_000_000_000)
        // This is the smallest size. curl doesn't use this buffer here, and would keep it as long as the connection.
        set(CURLOPT_BUFFERSIZE, 1024)
    }

    /// Adjusts the buffers after the connection has been opened. From now on the size of curl's buffer only limits a
    /// single read. The kernel holds few bytes that it has not sent yet, so that it accepts more only when the network
    /// does.
    func connected(on socket: CInt) {
        set(CURLOPT_BUFFERSIZE, 64 << 10)
        var unsent: CInt = 128 << 10
        setsockopt(socket, CInt(IPPROTO_TCP), TCP_NOTSENT_LOWAT, &unsent, socklen_t(MemoryLayout<CInt>.size))
    }

    /// Reads from an open connection.
    public func receive(into buffer: UnsafeMutableRawBufferPointer) -> Received {
        var count = 0
        switch curl_easy_recv(raw, buffer.baseAddress, buffer.count, &count) {
        case CURLE_OK: return count > 0 ? .bytes(count) : .end
        case CURLE_AGAIN: return .nothing
        // curl has detected that the peer has ended the connection, with nothing left to read, and has closed it.
        case CURLE_UNSUPPORTED_PROTOCOL: return .end
        default: return .failed
        }
    }

    /// Writes to an open connection.
    public func send(_ bytes: UnsafeRawBufferPointer) -> Sent {
        guard !bytes.isEmpty else { return .nothing }
        var count = 0
        switch curl_easy_send(raw, bytes.baseAddress, bytes.count, &count) {
        case CURLE_OK: return count > 0 ? .bytes(count) : .nothing
        case CURLE_AGAIN: return .nothing
        default: return .failed
        }
    }

    /// The socket of an open connection.
    var activeSocket: CInt? {
        var socket = CURL_SOCKET_BAD
        ccurl_easy_get(raw, CURLINFO_ACTIVESOCKET, &socket)
        return socket == CURL_SOCKET_BAD ? nil : socket
    }
}

// The functions that curl calls on the loop's thread. Each finds its transfer and calls it.

private func easyHandle(_ context: UnsafeMutableRawPointer?) -> EasyHandle? {
    context.map { Unmanaged.fromOpaque($0).takeUnretainedValue() }
}

private func transfer(_ context: UnsafeMutableRawPointer?) -> (any NetworkTransfer)? {
    let handle = easyHandle(context)
    handle?.transferWasCalled()
    return handle?.transfer
}

private func receiveHeaderLine(
    _ bytes: UnsafeMutablePointer<CChar>?, _ size: Int, _ count: Int, _ context: UnsafeMutableRawPointer?
) -> Int {
    let line = UnsafeRawBufferPointer(start: bytes, count: size * count)
    // No line has this length, so curl ends the transfer.
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
    guard let handle = easyHandle(context) else { return CInt(CURL_PREREQFUNC_ABORT) }
    guard transfer(context)?.connected() == true else {
        // curl tries to repeat the request by itself. If the connection died during the request, there is no text yet.
        // After HTTP_1_1_REQUIRED, curl 7.88 reports a stream without a response as an empty reply.
        let text = handle.failureText
        handle.mustUseHTTP1 = ["HTTP_1_1_REQUIRED", "Empty reply"].contains { text.contains($0) }
        return CInt(CURL_PREREQFUNC_ABORT)
    }
    handle.localPort = localPort
    return CInt(CURL_PREREQFUNC_OK)
}
