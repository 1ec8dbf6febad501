import CCurl
import HeapModule

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// The loop's thread at work: the members with their handles, the multi handles that perform them, and the sockets and
/// deadlines that it sleeps on. A round costs as much as there is to do, and not as much as there are members.
final class LoopWorker {
    private struct Resident {
        let member: any NetworkMember
        let handle: EasyHandle
        let shard: MultiShard
        var isConnected = false
        /// Of a connection that stands; `nil` again once curl has closed it.
        var socket: CInt?
        var reads = false
        var writes = false
        var deadline: Int?
        /// The earliest entry in the heap of deadlines.
        var queued: Int?
    }

    /// A moment at which a member wants a visit.
    ///
    /// An entry can't be taken back: a member that has another moment by now says so when the old one comes. So a deadline
    /// that is put off a thousand times costs one entry.
    private struct Deadline: Comparable {
        let moment: Int
        let id: Int

        static func < (one: Deadline, other: Deadline) -> Bool { (one.moment, one.id) < (other.moment, other.id) }
    }

    /// Tells curl's own sockets, which are named by their number, from those of connections that stand.
    private static let curlsOwn: UInt64 = 1 << 63
    private static let bellName = UInt64.max

    private let bell: LoopBell
    private let watch: CInt
    private let ready = UnsafeMutableBufferPointer<ccurl_ready>.allocate(capacity: 128)
    private let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 << 10, alignment: 16)
    private var residents: [Int: Resident] = [:]
    private var idsByMember: [ObjectIdentifier: Int] = [:]
    private var idsByHandle: [UnsafeMutableRawPointer: Int] = [:]
    private var idsBySocket: [CInt: Int] = [:]
    /// Connections that curl has closed, which their members have to find out.
    private var closedIDs: [Int] = []
    private var transferIDs: Set<Int> = []
    private var lastID = 0
    private var deadlines = Heap<Deadline>()
    /// All transfers share the pooled connections of one multi handle.
    private var transfers: MultiShard?
    private var connections: [MultiShard] = []

    /// `nil` when the process has no descriptor left.
    init?(bell: LoopBell) {
        watch = ccurl_watch_open()
        self.bell = bell
        guard watch >= 0 else { return nil }
        ccurl_watch_set(watch, bell.descriptor, Self.bellName, true, false)
    }

    deinit {
        close(watch)
        ready.deallocate()
        buffer.deallocate()
    }

    /// One round: takes in what other threads have brought, lets curl and the members do what there is to do, and sleeps
    /// until there is more.
    func work(with mail: NetworkLoop.Mail) {
        for member in mail.newcomers { admit(member) }
        for member in mail.woken { if let id = idsByMember[member] { visit(id) } }
        let now = LoopClock.now
        for shard in shards {
            shard.timeHasPassed(until: now)
            settle(shard)
        }
        for id in closedIDs { visit(id, reads: true, writes: true) }
        closedIDs = []
        while let entry = deadlines.min, entry.moment <= now {
            deadlines.removeMin()
            deadlineCame(entry, at: now)
        }
        if connections.count > 1 { connections.removeAll { $0.count == 0 } }
        sleep(until: (shards.map(\.moment) + [deadlines.min?.moment]).compactMap(\.self).min())
    }

    /// Destroys every handle and tells the members.
    func end() {
        let members = residents.values.map(\.member)
        for id in Array(residents.keys) { remove(id) }
        transfers = nil
        connections = []
        for member in members { member.loopStopped() }
    }

    private var shards: [MultiShard] { (transfers.map { [$0] } ?? []) + connections }

    /// Waits for sockets, the bell or the moment, and passes on which sockets are ready.
    private func sleep(until moment: Int?) {
        var milliseconds = 86_400_000
        if let moment {
            // Rounded up, so that the loop never wakes just before its moment.
            milliseconds = min(milliseconds, max(0, (moment - LoopClock.now + 999_999) / 1_000_000))
        }
        let count = ccurl_watch_wait(watch, ready.baseAddress, CInt(ready.count), CInt(milliseconds))
        for ready in ready.prefix(max(0, Int(count))) {
            if ready.name == Self.bellName {
                ccurl_bell_silence(bell.descriptor)
            } else if ready.name & Self.curlsOwn == 0 {
                visit(Int(ready.name), reads: ready.reads, writes: ready.writes)
            } else {
                let socket = CInt(truncatingIfNeeded: ready.name)
                shards.first { $0.owns(socket) }?.socketIsReady(socket, reads: ready.reads, writes: ready.writes)
            }
        }
    }

    // MARK: Members

    private func admit(_ member: any NetworkMember) {
        guard let shard = shard(for: member), let handle = EasyHandle() else { return member.loopStopped() }
        guard member.joined(handle) else { return }
        guard shard.add(handle) else { return member.loopStopped() }
        lastID += 1
        residents[lastID] = Resident(member: member, handle: handle, shard: shard)
        idsByMember[ObjectIdentifier(member)] = lastID
        idsByHandle[handle.raw] = lastID
        if !member.isConnection { transferIDs.insert(lastID) }
        visit(lastID)
    }

    /// For a connection the fullest that has room, so that the others may empty.
    private func shard(for member: any NetworkMember) -> MultiShard? {
        if !member.isConnection, let transfers { return transfers }
        if member.isConnection, let fullest = connections.filter(\.hasRoom).max(by: { $0.count < $1.count }) {
            return fullest
        }
        let shard = MultiShard(
            watch: { [unowned self] socket, reads, writes in
                ccurl_watch_set(watch, socket, UInt64(socket) | Self.curlsOwn, reads, writes)
            },
            closing: { [unowned self] in forget($0) })
        if !member.isConnection { transfers = shard } else if let shard { connections.append(shard) }
        return shard
    }

    /// Before curl opens a connection it closes others that their peers have ended.
    private func forget(_ socket: CInt) {
        guard let id = idsBySocket.removeValue(forKey: socket) else { return }
        ccurl_watch_set(watch, socket, 0, false, false)
        residents[id]?.socket = nil
        closedIDs.append(id)
    }

    /// Tells the members what curl has done since the last time.
    private func settle(_ shard: MultiShard) {
        guard shard.takeHasWorked() else { return }
        while let (done, result) = shard.nextDone() {
            guard let id = idsByHandle[done], let resident = residents[id] else { continue }
            if resident.member.isConnection, result == CURLE_OK, let socket = resident.handle.activeSocket {
                residents[id]?.isConnected = true
                residents[id]?.socket = socket
                idsBySocket[socket] = id
                resident.handle.connected(on: socket)
                visit(id, reads: true, writes: true)
            } else {
                let failure = resident.member.isConnection && result == CURLE_OK ? CURLE_COULDNT_CONNECT : result
                remove(id) { resident.member.ended(resident.handle, with: CurlResult(code: failure)) }
            }
        }
        if shard === transfers { for id in transferIDs { visit(id) } }
    }

    private func deadlineCame(_ entry: Deadline, at now: Int) {
        // An entry for a moment that was moved back stands for nothing.
        guard let resident = residents[entry.id], resident.queued == entry.moment else { return }
        residents[entry.id]?.queued = nil
        if let deadline = resident.deadline, deadline > now {
            enqueue(deadline, for: entry.id)
        } else if resident.deadline != nil {
            visit(entry.id)
        }
    }

    private func visit(_ id: Int, reads isReadable: Bool = false, writes isWritable: Bool = false) {
        guard let resident = residents[id] else { return }
        let visit = LoopVisit(
            isConnected: resident.isConnected, isReadable: isReadable, isWritable: isWritable, now: LoopClock.now,
            buffer: buffer)
        switch resident.member.visited(resident.handle, visit) {
        case .leave: remove(id)
        case .stay(let reads, let writes, let deadline):
            if let socket = resident.socket, reads != resident.reads || writes != resident.writes {
                residents[id]?.reads = reads
                residents[id]?.writes = writes
                ccurl_watch_set(watch, socket, UInt64(id), reads, writes)
            }
            residents[id]?.deadline = deadline
            if let deadline, resident.queued.map({ deadline < $0 }) ?? true { enqueue(deadline, for: id) }
        }
    }

    private func enqueue(_ deadline: Int, for id: Int) {
        residents[id]?.queued = deadline
        deadlines.insert(Deadline(moment: deadline, id: id))
    }

    /// - Parameter farewell: what still needs the handle once curl has let go of it.
    private func remove(_ id: Int, farewell: () -> Void = {}) {
        guard let resident = residents.removeValue(forKey: id) else { return }
        idsByMember[ObjectIdentifier(resident.member)] = nil
        idsByHandle[resident.handle.raw] = nil
        transferIDs.remove(id)
        if let socket = resident.socket {
            idsBySocket[socket] = nil
            ccurl_watch_set(watch, socket, 0, false, false)
        }
        resident.shard.remove(resident.handle)
        farewell()
    }
}
