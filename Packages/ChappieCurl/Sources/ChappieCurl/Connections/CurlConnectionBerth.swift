import CCurl

/// A multi handle that opens some connections and keeps them: curl 7.88 closes a CURLOPT_CONNECT_ONLY connection whose
/// handle leaves.
///
/// It is driven by curl's socket interface (curl_multi_socket_action). It keeps few, since curl looks through all
/// connections of a multi handle each time it reads or writes one. Stays on the loop's thread.
final class CurlConnectionBerth {
    /// A multi handle takes two descriptors and some 40 KB, which these share.
    private static let limit = 64

    private let raw: UnsafeMutableRawPointer
    private let watchSocket: (CInt, CInt) -> Void
    /// Those that curl watches at present.
    private var sockets: Set<CInt> = []
    private(set) var count = 0
    /// When curl wants to be called, whatever its sockets do.
    private(set) var moment: Duration?

    /// - Parameter watch: is told which socket to watch for what (CURL_POLL_IN and the others).
    init?(watch: @escaping (_ socket: CInt, _ what: CInt) -> Void) {
        guard let raw = curl_multi_init() else { return nil }
        self.raw = raw
        watchSocket = watch
        let context = Unmanaged.passUnretained(self).toOpaque()
        ccurl_multi_set_socket_callback(raw, socketChanged, context)
        ccurl_multi_set_timer_callback(raw, timerChanged, context)
    }

    deinit { curl_multi_cleanup(raw) }

    var hasRoom: Bool { count < Self.limit }

    func add(_ handle: EasyHandle) -> Bool {
        guard curl_multi_add_handle(raw, handle.raw) == CURLM_OK else { return false }
        count += 1
        return true
    }

    /// Closes the handle's connection.
    func remove(_ handle: EasyHandle) {
        curl_multi_remove_handle(raw, handle.raw)
        count -= 1
    }

    func owns(_ socket: CInt) -> Bool { sockets.contains(socket) }

    func socketIsReady(_ socket: CInt, reads: Bool, writes: Bool) {
        var running: CInt = 0
        let mask = (reads ? CURL_CSELECT_IN : 0) | (writes ? CURL_CSELECT_OUT : 0)
        curl_multi_socket_action(raw, socket, CInt(mask), &running)
    }

    func timeHasPassed(until now: Duration) {
        guard let moment, moment <= now else { return }
        self.moment = nil
        var running: CInt = 0
        // CURL_SOCKET_TIMEOUT, a macro that Swift can't read.
        curl_multi_socket_action(raw, CURL_SOCKET_BAD, 0, &running)
    }

    /// The next handle that curl is through with, connected or not.
    func nextDone() -> (UnsafeMutableRawPointer, CURLcode)? {
        var result = CURLE_OK
        return ccurl_multi_next_done(raw, &result).map { ($0, result) }
    }

    fileprivate func watch(_ socket: CInt, for what: CInt) {
        if what == CURL_POLL_REMOVE { sockets.remove(socket) } else { sockets.insert(socket) }
        watchSocket(socket, what)
    }

    fileprivate func setMoment(_ milliseconds: Int) {
        moment = milliseconds < 0 ? nil : LoopClock.now + .milliseconds(milliseconds)
    }
}

private func berth(_ context: UnsafeMutableRawPointer) -> CurlConnectionBerth {
    Unmanaged<CurlConnectionBerth>.fromOpaque(context).takeUnretainedValue()
}

private func socketChanged(
    _ handle: UnsafeMutableRawPointer?, _ socket: curl_socket_t, _ what: CInt, _ context: UnsafeMutableRawPointer?,
    _ socketContext: UnsafeMutableRawPointer?
) -> CInt {
    if let context { berth(context).watch(socket, for: what) }
    return 0
}

private func timerChanged(
    _ multi: UnsafeMutableRawPointer?, _ milliseconds: Int, _ context: UnsafeMutableRawPointer?
) -> CInt {
    if let context { berth(context).setMoment(milliseconds) }
    return 0
}
