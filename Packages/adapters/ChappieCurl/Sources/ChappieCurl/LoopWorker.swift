import CCurl
@_spi(ChappieInternals) import ChappieCore
import HeapModule

/// The worker that runs on the loop's thread. It owns the members with their handles, the multi handles that perform
/// them, and the sockets and deadlines that it waits for. The cost of a round depends on its work, not on the number of
/// members.
///
/// Most of the cost of a slow stream is that threads wake up for each of its pieces. So a loop with many members rests
/// after each round, and the next round serves all members whose bytes have arrived in the meantime.
final class LoopWorker {
    /// The work that other threads have queued for the loop's thread.
    struct PendingWork {
        var newcomers: [any NetworkMember] = []
        var woken: Set<ObjectIdentifier> = []
    }

    /// The time at which a member needs a visit.
    ///
    /// An entry can't be removed from the heap. If the member's deadline has moved, the worker notices that when the
    /// old time comes. As a result, a deadline that is postponed a thousand times costs one entry.
    private struct Deadline: Comparable {
        let moment: Int
        let member: ObjectIdentifier

        static func < (one: Deadline, other: Deadline) -> Bool { one.moment < other.moment }
    }

    /// The number of members from which the loop rests after each round.
    private static let crowd = 64
    /// The number of milliseconds for which the loop rests after each round. It is short next to the time between two
    /// words of a model.
    private static let crowdRest = 5

    private let watch: EpollSet
    private let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 << 10, alignment: 16)
    private var registrations: [ObjectIdentifier: Registration] = [:]
    private var registrationsBySocket: [CInt: Registration] = [:]
    /// The members whose connections curl has closed and that have not been notified yet.
    private var closed: [ObjectIdentifier] = []
    private var deadlines = Heap<Deadline>()
    /// The calls that resume tasks at the end of the round.
    private var deliveries: [@Sendable () -> Void] = []
    /// The number of milliseconds for which the sockets are not polled.
    private(set) var rest = 0
    /// The multi handle whose pooled connections all transfers share.
    private var transfers: MultiShard?
    private var connections: [MultiShard] = []

    init(watch: EpollSet) { self.watch = watch }

    deinit { buffer.deallocate() }

    /// Runs one round. Takes the work that other threads have queued, runs curl and the members, and sleeps until there
    /// is more work.
    func work(with pending: PendingWork) {
        for member in pending.newcomers { admit(member) }
        for member in pending.woken { visit(registrations[member]) }
        let now = LoopClock.now
        for shard in shards {
            shard.timeHasPassed(until: now)
            settle(shard)
        }
        for member in closed { visit(registrations[member], isReadable: true) }
        closed = []
        while let entry = deadlines.min, entry.moment <= now {
            deadlines.removeMin()
            deadlineCame(entry, at: now)
        }
        if connections.count > 1 { connections.removeAll { $0.registrations.isEmpty } }
        sleep(until: shards.reduce(deadlines.min?.moment ?? .max) { min($0, $1.moment ?? .max) })
    }

    /// Destroys every handle and notifies the members.
    func end() {
        let members = registrations.values.map(\.member)
        for registration in registrations.values { remove(registration) }
        transfers = nil
        connections = []
        deliver()
        for member in members { member.loopStopped() }
    }

    private var shards: [MultiShard] { (transfers.map { [$0] } ?? []) + connections }

    /// Waits for sockets, the bell or the given time, and notifies the owners of the sockets that are ready.
    private func sleep(until moment: Int) {
        deliver()
        if rest > 0 {
            watch.rest(milliseconds: rest, until: moment)
            rest = 0
            return
        }
        var isUrgent = false
        let hasMore = watch.sleep(until: moment) { socket, reads, writes in
            // Connecting and sending are not slowed down.
            isUrgent = isUrgent || writes
            if let registration = registrationsBySocket[socket] {
                visit(registration, isReadable: reads)
            } else {
                shards.first { $0.owns(socket) }?.socketIsReady(socket, reads: reads, writes: writes)
            }
        }
        if registrations.count >= Self.crowd, !hasMore, !isUrgent { rest = Self.crowdRest }
    }

    private func deliver() {
        for delivery in deliveries { delivery() }
        deliveries.removeAll(keepingCapacity: true)
    }

    // MARK: Members

    private func admit(_ member: any NetworkMember) {
        guard let shard = shard(for: member), let handle = EasyHandle() else { return member.loopStopped() }
        guard member.joined(handle) else { return }
        let registration = Registration(member, handle, on: shard)
        guard shard.add(registration) else { return member.loopStopped() }
        registrations[ObjectIdentifier(member)] = registration
        visit(registration)
    }

    /// Returns the shard for `member`. A connection gets the fullest shard that has room, so that the others may become
    /// empty.
    private func shard(for member: any NetworkMember) -> MultiShard? {
        let fullest = connections.filter(\.hasRoom).max { $0.registrations.count < $1.registrations.count }
        if let shard = member.isConnection ? fullest : transfers { return shard }
        let shard = MultiShard(watch: watch) { [unowned self] in forget($0) }
        if !member.isConnection { transfers = shard } else if let shard { connections.append(shard) }
        return shard
    }

    /// Forgets a socket that curl closes. Before curl opens a connection, it closes others that their peers have ended.
    private func forget(_ socket: CInt) {
        guard let registration = registrationsBySocket.removeValue(forKey: socket) else { return }
        watch.watch(socket, reads: false, writes: false)
        registration.socket = nil
        closed.append(ObjectIdentifier(registration.member))
    }

    /// Notifies the members of the work that curl has done since the last call.
    private func settle(_ shard: MultiShard) {
        guard shard.takeHasWorked() else { return }
        while let (registration, result) = shard.nextDone() {
            let isConnection = registration.member.isConnection
            if isConnection, result == CURLE_OK, let socket = registration.handle.activeSocket {
                registration.isConnected = true
                registration.socket = socket
                registrationsBySocket[socket] = registration
                registration.handle.connected(on: socket)
                visit(registration, isReadable: true)
            } else {
                remove(registration)
                let failure = isConnection && result == CURLE_OK ? CURLE_COULDNT_CONNECT : result
                registration.member.ended(registration.handle, with: CurlResult(code: failure))
            }
        }
        for member in shard.takeCalled() { visit(registrations[member]) }
    }

    private func deadlineCame(_ entry: Deadline, at now: Int) {
        // The deadline was moved, and another entry represents it.
        guard let registration = registrations[entry.member], registration.queued == entry.moment else { return }
        registration.queued = nil
        if let deadline = registration.deadline, deadline > now {
            enqueue(deadline, for: registration)
        } else if registration.deadline != nil {
            visit(registration)
        }
    }

    private func visit(_ registration: Registration?, isReadable: Bool = false) {
        guard let registration else { return }
        let visit = LoopVisit(
            isConnected: registration.isConnected, isReadable: isReadable, now: LoopClock.now, buffer: buffer,
            deliver: { [unowned self] in deliveries.append($0) })
        switch registration.member.visited(registration.handle, visit) {
        case .leave: remove(registration)
        case .stay(let reads, let writes, let deadline, let rests):
            if rests { rest = max(rest, Burst.rest / 1_000_000) }
            if let socket = registration.socket, reads != registration.reads || writes != registration.writes {
                registration.reads = reads
                registration.writes = writes
                watch.watch(socket, reads: reads, writes: writes)
            }
            registration.deadline = deadline
            if let deadline, registration.queued.map({ deadline < $0 }) ?? true { enqueue(deadline, for: registration) }
        }
    }

    private func enqueue(_ deadline: Int, for registration: Registration) {
        registration.queued = deadline
        deadlines.insert(Deadline(moment: deadline, member: ObjectIdentifier(registration.member)))
    }

    private func remove(_ registration: Registration) {
        registrations[ObjectIdentifier(registration.member)] = nil
        if let socket = registration.socket {
            registrationsBySocket[socket] = nil
            watch.watch(socket, reads: false, writes: false)
        }
        registration.shard.remove(registration)
    }
}
