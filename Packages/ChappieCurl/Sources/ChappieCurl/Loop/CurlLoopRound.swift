import CCurl

/// What the thread of a ``CurlEventLoop`` has in hands: the multi handle with the transfers that have joined, and the
/// pool of connections once there is one.
struct CurlLoopRound {
    private struct Resident {
        let member: any CurlLoopMember
        let handle: EasyHandle
        /// Whether curl still works on it.
        var isActive: Bool
    }

    private let multi: MultiHandle
    private var residents: [UnsafeMutableRawPointer: Resident] = [:]
    private var connections: CurlConnectionPool?

    init(multi: MultiHandle) { self.multi = multi }

    /// Takes in the newcomers, lets curl work, tells the members, and sleeps until there is something to do.
    ///
    /// - Returns: `false` when curl can't go on.
    mutating func run(with mail: CurlEventLoop.Mail) -> Bool {
        for member in mail.newTransfers { admit(member) }
        var running: CInt = 0
        guard curl_multi_perform(multi.raw, &running) == CURLM_OK else { return false }
        dismissFinished()
        let transfersMoment = closeRound()
        for member in mail.newConnections { admit(member) }
        let connectionsMoment = serveConnections(waking: mail.woken)
        return sleep(until: [transfersMoment, connectionsMoment].compactMap(\.self).min())
    }

    private func sleep(until moment: Duration?) -> Bool {
        let milliseconds = Self.milliseconds(until: moment)
        guard let connections else {
            return curl_multi_poll(multi.raw, nil, 0, milliseconds, nil) == CURLM_OK
        }
        var extra = curl_waitfd(fd: connections.descriptor, events: Int16(CURL_WAIT_POLLIN), revents: 0)
        return curl_multi_poll(multi.raw, &extra, 1, milliseconds, nil) == CURLM_OK
    }

    private mutating func admit(_ member: any CurlConnectionMember) {
        if connections == nil { connections = CurlConnectionPool() }
        guard let connections else { return member.loopStopped() }
        connections.admit(member)
    }

    private func serveConnections(waking woken: Set<ObjectIdentifier>) -> Duration? {
        guard let connections else { return nil }
        for member in woken { connections.wake(member) }
        return connections.work()
    }

    /// Destroys every handle, tells the members, destroys the multi handle.
    mutating func end() {
        let members = residents.values.map(\.member)
        for raw in residents.keys { curl_multi_remove_handle(multi.raw, raw) }
        residents = [:]
        connections?.end()
        connections = nil
        multi.destroy()
        for member in members { member.loopStopped() }
    }

    private mutating func admit(_ member: any CurlLoopMember) {
        guard let handle = EasyHandle() else { return member.loopStopped() }
        guard member.joined(handle) else { return }
        guard curl_multi_add_handle(multi.raw, handle.raw) == CURLM_OK else { return member.loopStopped() }
        residents[handle.raw] = Resident(member: member, handle: handle, isActive: true)
    }

    private mutating func dismissFinished() {
        var result = CURLE_OK
        while let raw = ccurl_multi_next_done(multi.raw, &result) {
            guard let resident = residents[raw] else { continue }
            curl_multi_remove_handle(multi.raw, raw)
            residents[raw]?.isActive = false
            if !resident.member.finished(resident.handle, with: result) { residents[raw] = nil }
        }
    }

    /// - Returns: the earliest moment at which some member wants another round.
    private mutating func closeRound() -> Duration? {
        let now = LoopClock.now
        var earliest: Duration?
        for (raw, resident) in residents {
            switch resident.member.roundEnded(resident.handle, at: now) {
            case .stay(until: let deadline):
                if let deadline { earliest = min(earliest ?? deadline, deadline) }
            case .leave:
                if resident.isActive { curl_multi_remove_handle(multi.raw, raw) }
                residents[raw] = nil
            }
        }
        return earliest
    }

    /// Rounded up, so that the loop never wakes just before the deadline; curl's own timers shorten the sleep by
    /// themselves.
    private static func milliseconds(until deadline: Duration?) -> CInt {
        let aDay: Int64 = 86_400_000
        guard let deadline else { return CInt(aDay) }
        let (seconds, attoseconds) = (deadline - LoopClock.now).components
        guard seconds < 86_400 else { return CInt(aDay) }
        return CInt(max(0, seconds * 1000 + attoseconds / 1_000_000_000_000_000 + 1))
    }
}
