import CCurl

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// A multi handle, driven by curl's socket interface (curl_multi_socket_action). Stays on the loop's thread.
///
/// One performs all transfers. Connections are spread over several: curl 7.88 closes a CURLOPT_CONNECT_ONLY connection
/// whose handle leaves, so they stay where they were opened, and curl looks through all connections of a multi handle each
/// time it reads or writes one.
final class MultiShard {
    /// A multi handle takes two descriptors and some 40 KB, which these connections share.
    private static let limit = 64

    private let raw: UnsafeMutableRawPointer
    private let watchSocket: (_ socket: CInt, _ reads: Bool, _ writes: Bool) -> Void
    private let closing: (_ socket: CInt) -> Void
    /// Those that curl watches at present.
    private var sockets: Set<CInt> = []
    private(set) var count = 0
    /// When curl wants to be called, whatever its sockets do.
    private(set) var moment: Int?
    private var hasWorked = false

    /// - Parameters:
    ///   - watch: is told what to watch a socket for; for nothing when curl needs it no more.
    ///   - closing: is told of each socket that is about to be closed, after which its number may be another's.
    init?(
        watch: @escaping (_ socket: CInt, _ reads: Bool, _ writes: Bool) -> Void,
        closing: @escaping (_ socket: CInt) -> Void
    ) {
        guard let raw = curl_multi_init() else { return nil }
        self.raw = raw
        watchSocket = watch
        self.closing = closing
        let context = Unmanaged.passUnretained(self).toOpaque()
        ccurl_multi_set_socket_callback(raw, socketChanged, context)
        ccurl_multi_set_timer_callback(raw, timerChanged, context)
    }

    deinit { curl_multi_cleanup(raw) }

    var hasRoom: Bool { count < Self.limit }

    func add(_ handle: EasyHandle) -> Bool {
        ccurl_easy_set_pointer(handle.raw, CURLOPT_CLOSESOCKETDATA, Unmanaged.passUnretained(self).toOpaque())
        ccurl_easy_set_close_callback(handle.raw, closeSocket)
        guard curl_multi_add_handle(raw, handle.raw) == CURLM_OK else { return false }
        count += 1
        return true
    }

    /// Closes the connection of an unfinished handle.
    func remove(_ handle: EasyHandle) {
        curl_multi_remove_handle(raw, handle.raw)
        count -= 1
    }

    func owns(_ socket: CInt) -> Bool { sockets.contains(socket) }

    func socketIsReady(_ socket: CInt, reads: Bool, writes: Bool) {
        act(on: socket, (reads ? CURL_CSELECT_IN : 0) | (writes ? CURL_CSELECT_OUT : 0))
    }

    func timeHasPassed(until now: Int) {
        guard let moment, moment <= now else { return }
        self.moment = nil
        // CURL_SOCKET_TIMEOUT, a macro that Swift can't read.
        act(on: CURL_SOCKET_BAD, 0)
    }

    private func act(on socket: CInt, _ mask: CInt) {
        hasWorked = true
        var running: CInt = 0
        curl_multi_socket_action(raw, socket, mask, &running)
    }

    /// Whether curl has done anything since the last question.
    func takeHasWorked() -> Bool {
        defer { hasWorked = false }
        return hasWorked
    }

    /// The next handle that curl is through with.
    func nextDone() -> (UnsafeMutableRawPointer, CURLcode)? {
        var result = CURLE_OK
        return ccurl_multi_next_done(raw, &result).map { ($0, result) }
    }

    fileprivate func watch(_ socket: CInt, for what: CInt) {
        if what == CURL_POLL_REMOVE { sockets.remove(socket) } else { sockets.insert(socket) }
        watchSocket(
            socket, what == CURL_POLL_IN || what == CURL_POLL_INOUT, what == CURL_POLL_OUT || what == CURL_POLL_INOUT)
    }

    fileprivate func close(_ socket: CInt) -> CInt {
        closing(socket)
        return closeDescriptor(socket)
    }

    fileprivate func setMoment(_ milliseconds: Int) {
        moment = milliseconds < 0 ? nil : LoopClock.now + milliseconds * 1_000_000
    }
}

private func shard(_ context: UnsafeMutableRawPointer) -> MultiShard {
    Unmanaged<MultiShard>.fromOpaque(context).takeUnretainedValue()
}

private func socketChanged(
    _ handle: UnsafeMutableRawPointer?, _ socket: curl_socket_t, _ what: CInt, _ context: UnsafeMutableRawPointer?,
    _ socketContext: UnsafeMutableRawPointer?
) -> CInt {
    if let context { shard(context).watch(socket, for: what) }
    return 0
}

private func closeSocket(_ context: UnsafeMutableRawPointer?, _ socket: curl_socket_t) -> CInt {
    context.map { shard($0).close(socket) } ?? closeDescriptor(socket)
}

private func closeDescriptor(_ descriptor: CInt) -> CInt { close(descriptor) }

private func timerChanged(
    _ multi: UnsafeMutableRawPointer?, _ milliseconds: Int, _ context: UnsafeMutableRawPointer?
) -> CInt {
    if let context { shard(context).setMoment(milliseconds) }
    return 0
}
