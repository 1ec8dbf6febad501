import CCurl

/// The connections of an event loop, on the berths that opened them. A round costs as much as there is to do, and not as
/// much as there are connections. Stays on the loop's thread.
final class CurlConnectionPool {
    private struct Resident {
        let member: any CurlConnectionMember
        let handle: EasyHandle
        let berth: CurlConnectionBerth
        /// `nil` while curl is connecting.
        var socket: CInt?
        var reads = false
        var writes = false
        var deadline: Duration?
        /// The earliest entry in the queue of deadlines.
        var queued: Duration?
    }

    private enum Reason {
        case woken, connected, due
        case ready(reads: Bool, writes: Bool)
    }

    /// Tells curl's own sockets, which are named by their number, from those of connections that stand.
    private static let curlsOwn: UInt64 = 1 << 63

    private let watch: SocketWatch
    private let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 << 10, alignment: 16)
    private var residents: [Int: Resident] = [:]
    private var idsByMember: [ObjectIdentifier: Int] = [:]
    private var idsByHandle: [UnsafeMutableRawPointer: Int] = [:]
    private var lastID = 0
    private var deadlines = DeadlineQueue()
    private var berths: [CurlConnectionBerth] = []

    /// `nil` when the process has no descriptor left.
    init?() {
        guard let watch = SocketWatch() else { return nil }
        self.watch = watch
    }

    deinit { buffer.deallocate() }

    /// What becomes readable when there is something to do.
    var descriptor: CInt { watch.descriptor }

    // MARK: Members

    func admit(_ member: any CurlConnectionMember) {
        guard let berth = berthWithRoom(), let handle = EasyHandle() else { return member.loopStopped() }
        guard member.joined(handle) else { return }
        guard berth.add(handle) else { return member.loopStopped() }
        lastID += 1
        residents[lastID] = Resident(member: member, handle: handle, berth: berth)
        idsByMember[ObjectIdentifier(member)] = lastID
        idsByHandle[handle.raw] = lastID
        visit(lastID, .woken)
    }

    /// The fullest that has room, so that the others may empty.
    private func berthWithRoom() -> CurlConnectionBerth? {
        if let berth = berths.filter(\.hasRoom).max(by: { $0.count < $1.count }) { return berth }
        guard let berth = CurlConnectionBerth(watch: { [unowned self] in watch($0, for: $1) }) else { return nil }
        berths.append(berth)
        return berth
    }

    func wake(_ member: ObjectIdentifier) {
        if let id = idsByMember[member] { visit(id, .woken) }
    }

    /// Destroys every handle, tells the members, destroys the multi handle.
    func end() {
        let members = residents.values.map(\.member)
        for id in Array(residents.keys) { remove(id) }
        berths = []
        for member in members { member.loopStopped() }
    }

    // MARK: A round

    /// Lets curl and the members do what there is to do.
    ///
    /// - Returns: the moment of the next round at the latest.
    func work() -> Duration? {
        for ready in watch.collect() {
            if ready.name & Self.curlsOwn == 0 {
                visit(Int(ready.name), .ready(reads: ready.reads, writes: ready.writes))
            } else {
                let socket = CInt(truncatingIfNeeded: ready.name)
                berths.first { $0.owns(socket) }?.socketIsReady(socket, reads: ready.reads, writes: ready.writes)
            }
        }
        let now = LoopClock.now
        for berth in berths {
            berth.timeHasPassed(until: now)
            greetConnected(on: berth)
        }
        while let entry = deadlines.popFirst(dueAt: now) { deadlineCame(entry, at: now) }
        let hasSeveral = berths.count > 1
        berths.removeAll { hasSeveral && $0.count == 0 }
        return (berths.map(\.moment) + [deadlines.earliest]).compactMap(\.self).min()
    }

    private func greetConnected(on berth: CurlConnectionBerth) {
        while let (done, result) = berth.nextDone() {
            guard let id = idsByHandle[done], let resident = residents[id] else { continue }
            if result == CURLE_OK, let socket = resident.handle.activeSocket {
                residents[id]?.socket = socket
                resident.handle.connected(on: socket)
                visit(id, .connected)
            } else {
                remove(id)
                resident.member.failed(resident.handle, with: result == CURLE_OK ? CURLE_COULDNT_CONNECT : result)
            }
        }
    }

    private func deadlineCame(_ entry: DeadlineQueue.Entry, at now: Duration) {
        // An entry for a moment that was moved back stands for nothing.
        guard let resident = residents[entry.id], resident.queued == entry.moment else { return }
        residents[entry.id]?.queued = nil
        if let deadline = resident.deadline, deadline > now {
            enqueue(deadline, for: entry.id)
        } else if resident.deadline != nil {
            visit(entry.id, .due)
        }
    }

    private func visit(_ id: Int, _ reason: Reason) {
        guard let resident = residents[id] else { return }
        let (reads, writes) =
            switch reason {
            case .connected: (true, true)
            case .ready(let reads, let writes): (reads, writes)
            case .woken, .due: (false, false)
            }
        let verdict = resident.member.visited(
            resident.handle,
            CurlConnectionVisit(
                isConnected: resident.socket != nil, isReadable: reads, isWritable: writes, now: LoopClock.now,
                buffer: buffer))
        switch verdict {
        case .leave: remove(id)
        case .stay(let reads, let writes, let deadline):
            if let socket = resident.socket, reads != resident.reads || writes != resident.writes {
                residents[id]?.reads = reads
                residents[id]?.writes = writes
                watch.set(socket, named: UInt64(id), reads: reads, writes: writes)
            }
            residents[id]?.deadline = deadline
            if let deadline, resident.queued.map({ deadline < $0 }) ?? true { enqueue(deadline, for: id) }
        }
    }

    private func enqueue(_ deadline: Duration, for id: Int) {
        residents[id]?.queued = deadline
        deadlines.add(deadline, for: id)
    }

    private func remove(_ id: Int) {
        guard let resident = residents.removeValue(forKey: id) else { return }
        idsByMember[ObjectIdentifier(resident.member)] = nil
        idsByHandle[resident.handle.raw] = nil
        if let socket = resident.socket { watch.set(socket, named: 0, reads: false, writes: false) }
        resident.berth.remove(resident.handle)
    }

    /// What a berth wants to hear of a socket that curl is still connecting.
    private func watch(_ socket: CInt, for what: CInt) {
        watch.set(
            socket, named: UInt64(socket) | Self.curlsOwn, reads: what == CURL_POLL_IN || what == CURL_POLL_INOUT,
            writes: what == CURL_POLL_OUT || what == CURL_POLL_INOUT)
    }
}
