import CCurl
@_spi(ChappieInternals) import ChappieCore

/// A member that is on the loop's thread.
final class Registration {
    let member: any NetworkMember
    let handle: EasyHandle
    let shard: MultiShard
    var isConnected = false
    /// The socket of an open connection, or `nil` after curl has closed it.
    var socket: CInt?
    var reads = false
    var writes = false
    var deadline: Int?
    /// The member's earliest entry in the heap of deadlines.
    var queued: Int?

    init(_ member: any NetworkMember, _ handle: EasyHandle, on shard: MultiShard) {
        self.member = member
        self.handle = handle
        self.shard = shard
    }
}

/// A multi handle, driven by curl's socket interface (curl_multi_socket_action). It stays on the loop's thread.
///
/// One shard performs all transfers. Connections are spread over several shards for two reasons. curl 7.88 closes a
/// CURLOPT_CONNECT_ONLY connection whose handle leaves its multi handle, so connections stay in the shard that opened
/// them. Also, curl searches all connections of a multi handle each time it reads or writes any of them.
final class MultiShard {
    /// The number of connections that share a multi handle, which costs two descriptors and about 40 KB.
    private static let limit = 64
    /// The number of milliseconds after which a connection fails if the peer's kernel has acknowledged nothing. By
    /// default the system tries for a quarter of an hour (tcp(7), TCP_USER_TIMEOUT).
    fileprivate static let acknowledgementLimit: CUnsignedInt = 30_000

    private let raw: UnsafeMutableRawPointer
    private let watch: EpollSet
    private let closing: (_ socket: CInt) -> Void
    /// The sockets that curl currently watches.
    private var sockets: Set<CInt> = []
    /// The local ports of connections that may be dead and that other transfers still use. curl would assign new
    /// transfers to such a connection until the last of these has left.
    private var distrusted: Set<CInt> = []
    private(set) var registrations: [ObjectIdentifier: Registration] = [:]
    /// The members whose transfers curl has called since the last call of ``takeCalled()``.
    private var called: Set<ObjectIdentifier> = []
    /// The time at which curl must be called, whatever its sockets do.
    private(set) var moment: Int?
    private var hasWorked = false

    /// Creates a shard. Returns `nil` if curl can't create a multi handle.
    ///
    /// - Parameter closing: A closure that is called for each socket that is about to be closed. Afterwards its number
    ///   may belong to another socket.
    init?(watch: EpollSet, closing: @escaping (_ socket: CInt) -> Void) {
        guard let raw = curl_multi_init() else { return nil }
        self.raw = raw
        self.watch = watch
        self.closing = closing
        ccurl_multi_set_callbacks(raw, socketChanged, timerChanged, Unmanaged.passUnretained(self).toOpaque())
    }

    deinit { curl_multi_cleanup(raw) }

    var hasRoom: Bool { registrations.count < Self.limit }

    func add(_ registration: Registration) -> Bool {
        let handle = registration.handle.raw
        let member = ObjectIdentifier(registration.member)
        registration.handle.transferWasCalled = { [unowned self] in called.insert(member) }
        ccurl_easy_set_socket_callbacks(handle, limitWaiting, closeSocket, Unmanaged.passUnretained(self).toOpaque())
        if !distrusted.isEmpty { registration.handle.set(CURLOPT_FRESH_CONNECT, true) }
        ccurl_easy_set_pointer(handle, CURLOPT_PRIVATE, Unmanaged.passUnretained(registration).toOpaque())
        guard curl_multi_add_handle(raw, handle) == CURLM_OK else { return false }
        registrations[member] = registration
        return true
    }

    /// Closes the connection of an unfinished handle, unless it is shared and not distrusted.
    func remove(_ registration: Registration) {
        let handle = registration.handle
        if handle.distrustsConnection, let port = handle.localPort { distrusted.insert(port) }
        let isDistrusted = handle.localPort.map(distrusted.contains) ?? handle.distrustsConnection
        if isDistrusted { handle.set(CURLOPT_FORBID_REUSE, true) }
        curl_multi_remove_handle(raw, handle.raw)
        registrations[ObjectIdentifier(registration.member)] = nil
    }

    func owns(_ socket: CInt) -> Bool { sockets.contains(socket) }

    func socketIsReady(_ socket: CInt, reads: Bool, writes: Bool) {
        act(on: socket, (reads ? CURL_CSELECT_IN : 0) | (writes ? CURL_CSELECT_OUT : 0))
    }

    func timeHasPassed(until now: Int) {
        guard let moment, moment <= now else { return }
        self.moment = nil
        // CURL_SOCKET_TIMEOUT is a macro that Swift can't read.
        act(on: CURL_SOCKET_BAD, 0)
    }

    private func act(on socket: CInt, _ mask: CInt) {
        hasWorked = true
        var running: CInt = 0
        curl_multi_socket_action(raw, socket, mask, &running)
    }

    /// Returns whether curl has worked since the last call.
    func takeHasWorked() -> Bool {
        defer { hasWorked = false }
        return hasWorked
    }

    /// Returns the members whose transfers curl has called since the last call. Some may have left in the meantime.
    func takeCalled() -> Set<ObjectIdentifier> {
        defer { called = [] }
        return called
    }

    /// Returns the next member whose work has ended, or `nil` if there is none.
    func nextDone() -> (Registration, CURLcode)? {
        var result = CURLE_OK
        var registration: UnsafeMutableRawPointer?
        guard let done = ccurl_multi_next_done(raw, &result) else { return nil }
        ccurl_easy_get(done, CURLINFO_PRIVATE, &registration)
        guard let registration else { return nil }
        let finished = Unmanaged<Registration>.fromOpaque(registration).takeUnretainedValue()
        // The connection of a successful transfer is alive.
        if result == CURLE_OK, let port = finished.handle.localPort { distrusted.remove(port) }
        return (finished, result)
    }

    fileprivate func watch(_ socket: CInt, for what: CInt) {
        if what == CURL_POLL_REMOVE { sockets.remove(socket) } else { sockets.insert(socket) }
        watch.watch(
            socket, reads: what == CURL_POLL_IN || what == CURL_POLL_INOUT,
            writes: what == CURL_POLL_OUT || what == CURL_POLL_INOUT)
    }

    fileprivate func closes(_ socket: CInt) {
        if !distrusted.isEmpty { distrusted.remove(localPort(of: socket)) }
        closing(socket)
    }

    fileprivate func setMoment(_ milliseconds: Int) {
        moment = milliseconds < 0 ? nil : LoopClock.now + milliseconds * 1_000_000
    }
}

private func shard(_ context: UnsafeMutableRawPointer?) -> MultiShard? {
    context.map { Unmanaged.fromOpaque($0).takeUnretainedValue() }
}

private func socketChanged(
    _ handle: UnsafeMutableRawPointer?, _ socket: curl_socket_t, _ what: CInt, _ context: UnsafeMutableRawPointer?,
    _ socketContext: UnsafeMutableRawPointer?
) -> CInt {
    shard(context)?.watch(socket, for: what)
    return 0
}

/// Returns the local port of a connection, or 0 if there is none.
private func localPort(of socket: curl_socket_t) -> CInt {
    var address = sockaddr_in6()
    var size = socklen_t(MemoryLayout<sockaddr_in6>.size)
    let status = withUnsafeMutablePointer(to: &address) {
        $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(socket, $0, &size) }
    }
    // An IPv4 address has its port at the same offset.
    return status == 0 ? CInt(in_port_t(bigEndian: address.sin6_port)) : 0
}

private func limitWaiting(
    _ context: UnsafeMutableRawPointer?, _ socket: curl_socket_t, _ purpose: curlsocktype
) -> CInt {
    var limit = MultiShard.acknowledgementLimit
    setsockopt(socket, CInt(IPPROTO_TCP), TCP_USER_TIMEOUT, &limit, socklen_t(MemoryLayout<CUnsignedInt>.size))
    return CInt(CURL_SOCKOPT_OK)
}

private func closeSocket(_ context: UnsafeMutableRawPointer?, _ socket: curl_socket_t) -> CInt {
    shard(context)?.closes(socket)
    return close(socket)
}

private func timerChanged(
    _ multi: UnsafeMutableRawPointer?, _ milliseconds: Int, _ context: UnsafeMutableRawPointer?
) -> CInt {
    shard(context)?.setMoment(milliseconds)
    return 0
}
