import CCurl
import HeapModule

/// A member on the loop's thread.
final class Resident {
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

    init(_ member: any NetworkMember, _ handle: EasyHandle, on shard: MultiShard) {
        self.member = member
        self.handle = handle
        self.shard = shard
    }
}

/// The loop's thread at work: the members with their handles, the multi handles that perform them, and the sockets and
/// deadlines that it sleeps on. A round costs as much as there is to do, and not as much as there are members.
final class LoopWorker {
    /// A moment at which a member wants a visit.
    ///
    /// An entry can't be taken back: a member that has another moment by now says so when the old one comes. So a deadline
    /// that is put off a thousand times costs one entry.
    private struct Deadline: Comparable {
        let moment: Int
        let member: ObjectIdentifier

        static func < (one: Deadline, other: Deadline) -> Bool { one.moment < other.moment }
    }

    private let watch: SocketWatch
    private let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 << 10, alignment: 16)
    private var residents: [ObjectIdentifier: Resident] = [:]
    private var residentsBySocket: [CInt: Resident] = [:]
    /// Connections that curl has closed, which their members have to find out.
    private var closed: [ObjectIdentifier] = []
    private var deadlines = Heap<Deadline>()
    /// Whether a transfer is in a burst, so that the sockets are left alone for a moment.
    private var rests = false
    /// All transfers share the pooled connections of one multi handle.
    private var transfers: MultiShard?
    private var connections: [MultiShard] = []

    init(watch: SocketWatch) { self.watch = watch }

    deinit { buffer.deallocate() }

    /// One round: takes in what other threads have brought, lets curl and the members do what there is to do, and sleeps
    /// until there is more.
    func work(with mail: NetworkLoop.Mail) {
        for member in mail.newcomers { admit(member) }
        for member in mail.woken { visit(residents[member]) }
        let now = LoopClock.now
        for shard in shards {
            shard.timeHasPassed(until: now)
            settle(shard)
        }
        for member in closed { visit(residents[member], isReadable: true) }
        closed = []
        while let entry = deadlines.min, entry.moment <= now {
            deadlines.removeMin()
            deadlineCame(entry, at: now)
        }
        if connections.count > 1 { connections.removeAll(where: \.residents.isEmpty) }
        sleep(until: (shards.map(\.moment) + [deadlines.min?.moment]).compactMap(\.self).min())
    }

    /// Destroys every handle and tells the members.
    func end() {
        let members = residents.values.map(\.member)
        for resident in residents.values { remove(resident) }
        transfers = nil
        connections = []
        for member in members { member.loopStopped() }
    }

    private var shards: [MultiShard] { (transfers.map { [$0] } ?? []) + connections }

    /// Waits for sockets, the bell or the moment, and passes on which sockets are ready.
    private func sleep(until moment: Int?) {
        // Rounded up, so that the loop never wakes just before its moment.
        let milliseconds = moment.map { max(0, ($0 - LoopClock.now + 999_999) / 1_000_000) } ?? .max
        if rests {
            rests = false
            return watch.rest(milliseconds: min(milliseconds, Burst.rest / 1_000_000))
        }
        watch.sleep(milliseconds: min(milliseconds, 86_400_000)) { socket, reads, writes in
            if let resident = residentsBySocket[socket] {
                visit(resident, isReadable: reads)
            } else {
                shards.first { $0.owns(socket) }?.socketIsReady(socket, reads: reads, writes: writes)
            }
        }
    }

    // MARK: Members

    private func admit(_ member: any NetworkMember) {
        guard let shard = shard(for: member), let handle = EasyHandle() else { return member.loopStopped() }
        guard member.joined(handle) else { return }
        let resident = Resident(member, handle, on: shard)
        guard shard.add(resident) else { return member.loopStopped() }
        residents[ObjectIdentifier(member)] = resident
        visit(resident)
    }

    /// For a connection the fullest that has room, so that the others may empty.
    private func shard(for member: any NetworkMember) -> MultiShard? {
        let fullest = connections.filter(\.hasRoom).max { $0.residents.count < $1.residents.count }
        if let shard = member.isConnection ? fullest : transfers { return shard }
        let shard = MultiShard(watch: watch) { [unowned self] in forget($0) }
        if !member.isConnection { transfers = shard } else if let shard { connections.append(shard) }
        return shard
    }

    /// Before curl opens a connection it closes others that their peers have ended.
    private func forget(_ socket: CInt) {
        guard let resident = residentsBySocket.removeValue(forKey: socket) else { return }
        watch.watch(socket, reads: false, writes: false)
        resident.socket = nil
        closed.append(ObjectIdentifier(resident.member))
    }

    /// Tells the members what curl has done since the last time.
    private func settle(_ shard: MultiShard) {
        guard shard.takeHasWorked() else { return }
        while let (resident, result) = shard.nextDone() {
            let isConnection = resident.member.isConnection
            if isConnection, result == CURLE_OK, let socket = resident.handle.activeSocket {
                resident.isConnected = true
                resident.socket = socket
                residentsBySocket[socket] = resident
                resident.handle.connected(on: socket)
                visit(resident, isReadable: true)
            } else {
                remove(resident)
                let failure = isConnection && result == CURLE_OK ? CURLE_COULDNT_CONNECT : result
                resident.member.ended(resident.handle, with: CurlResult(code: failure))
            }
        }
        if shard === transfers { for resident in shard.residents.values { visit(resident) } }
    }

    private func deadlineCame(_ entry: Deadline, at now: Int) {
        // An entry for a moment that was moved back stands for nothing.
        guard let resident = residents[entry.member], resident.queued == entry.moment else { return }
        resident.queued = nil
        if let deadline = resident.deadline, deadline > now {
            enqueue(deadline, for: resident)
        } else if resident.deadline != nil {
            visit(resident)
        }
    }

    private func visit(_ resident: Resident?, isReadable: Bool = false) {
        guard let resident else { return }
        let visit = LoopVisit(
            isConnected: resident.isConnected, isReadable: isReadable, now: LoopClock.now, buffer: buffer)
        switch resident.member.visited(resident.handle, visit) {
        case .leave: remove(resident)
        case .stay(let reads, let writes, let deadline, let rests):
            self.rests = self.rests || rests
            if let socket = resident.socket, reads != resident.reads || writes != resident.writes {
                resident.reads = reads
                resident.writes = writes
                watch.watch(socket, reads: reads, writes: writes)
            }
            resident.deadline = deadline
            if let deadline, resident.queued.map({ deadline < $0 }) ?? true { enqueue(deadline, for: resident) }
        }
    }

    private func enqueue(_ deadline: Int, for resident: Resident) {
        resident.queued = deadline
        deadlines.insert(Deadline(moment: deadline, member: ObjectIdentifier(resident.member)))
    }

    private func remove(_ resident: Resident) {
        residents[ObjectIdentifier(resident.member)] = nil
        if let socket = resident.socket {
            residentsBySocket[socket] = nil
            watch.watch(socket, reads: false, writes: false)
        }
        resident.shard.remove(resident)
    }
}
