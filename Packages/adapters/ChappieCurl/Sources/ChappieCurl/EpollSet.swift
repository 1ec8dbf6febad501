import CCurl
@_spi(ChappieInternals) import ChappieCore
import Synchronization

/// curl's process-wide state.
enum CurlGlobal {
    /// Whether curl could be set up. The first access sets it up once. From curl 7.84 on this is safe whatever other
    /// threads do.
    static let isReady: Bool = {
        ccurl_keep_openssl_until_the_end()
        let everything = 3  // CURL_GLOBAL_ALL, a macro that Swift can't read
        return curl_global_init(everything) == CURLE_OK
    }()
}

/// Runs `body` on a new thread with every signal blocked. Returns whether the system provided a thread.
func startThread(_ body: @escaping @Sendable () -> Void) -> Bool {
    let box = Unmanaged.passRetained(ThreadBody(body))
    let hasStarted = ccurl_start_thread(
        { context in
            if let context { Unmanaged<ThreadBody>.fromOpaque(context).takeRetainedValue().run() }
            return nil
        }, box.toOpaque())
    if !hasStarted { box.release() }
    return hasStarted
}

private final class ThreadBody: Sendable {
    let run: @Sendable () -> Void
    init(_ run: @escaping @Sendable () -> Void) { self.run = run }
}

/// A set of sockets that wake a loop's thread, without a limit on their number (epoll), and a bell with which other
/// threads wake it (eventfd).
final class EpollSet: Sendable {
    private static let batch = 128
    private let queue = epoll_create1(CInt(EPOLL_CLOEXEC))
    private let bell = eventfd(0, CInt(EFD_CLOEXEC | EFD_NONBLOCK))
    /// A timer that also counts the time in which the machine sleeps, which epoll_wait's own limit does not. After a
    /// suspend, a deadline that has passed is noticed at once.
    private let timer = timerfd_create(CLOCK_BOOTTIME, CInt(TFD_CLOEXEC | TFD_NONBLOCK))
    /// The time for which the timer is set.
    private let alarm = Atomic(Int.max)

    /// Creates a set. Returns `nil` if the process has no descriptor left.
    init?() {
        guard queue >= 0, bell >= 0, timer >= 0 else { return nil }
        watch(bell, reads: true, writes: false)
        watch(timer, reads: true, writes: false)
    }

    deinit {
        close(bell)
        close(timer)
        close(queue)
    }

    /// Wakes the loop's thread. May be called from any thread.
    func ring() { eventfd_write(bell, 1) }

    /// Watches the socket from now on, level-triggered. If both `reads` and `writes` are `false`, removes the socket.
    func watch(_ socket: CInt, reads: Bool, writes: Bool) {
        var event = epoll_event()
        event.data.fd = socket
        if reads { event.events |= EPOLLIN.rawValue }
        if writes { event.events |= EPOLLOUT.rawValue }
        if event.events == 0 {
            epoll_ctl(queue, EPOLL_CTL_DEL, socket, &event)
        } else if epoll_ctl(queue, EPOLL_CTL_MOD, socket, &event) != 0 {
            epoll_ctl(queue, EPOLL_CTL_ADD, socket, &event)
        }
    }

    /// Sleeps for the given time, whatever the sockets do, or until `moment` or until the bell rings.
    func rest(milliseconds: Int, until moment: Int) {
        var polled = pollfd(fd: bell, events: Int16(POLLIN), revents: 0)
        if poll(&polled, 1, CInt(min(milliseconds, Self.milliseconds(until: moment)))) > 0 { stopRinging() }
    }

    /// Returns the time until `moment`. It is rounded up, so that the loop never wakes shortly before it. `moment` may
    /// be `Int.max`, also in the first millisecond of the clock.
    static func milliseconds(until moment: Int, from now: Int = LoopClock.now) -> Int {
        let left = max(0, moment - now)
        return left / 1_000_000 + (left % 1_000_000 == 0 ? 0 : 1)
    }

    private func stopRinging() {
        var rings: eventfd_t = 0
        eventfd_read(bell, &rings)
    }

    /// Starts the timer, unless it expires before `moment` anyway. Deadlines are postponed all the time, and an alarm
    /// that comes too early costs less than a system call for each of them.
    ///
    /// - Returns: The limit for epoll_wait.
    private func setTimer(_ milliseconds: Int, for moment: Int) -> CInt {
        guard moment < alarm.load(ordering: .relaxed) else { return -1 }
        var time = itimerspec()
        time.it_value = timespec(tv_sec: milliseconds / 1000, tv_nsec: milliseconds % 1000 * 1_000_000)
        guard timerfd_settime(timer, 0, &time, nil) == 0 else { return CInt(clamping: milliseconds) }
        alarm.store(moment, ordering: .relaxed)
        return -1
    }

    private func stopTimer() {
        var count: UInt64 = 0
        _ = read(timer, &count, MemoryLayout<UInt64>.size)
        alarm.store(.max, ordering: .relaxed)
    }

    /// Sleeps at most until `moment`, and then calls `isReady` for each socket that is ready. A socket that has failed
    /// is ready for both reading and writing.
    ///
    /// - Returns: Whether more sockets may be ready.
    func sleep(until moment: Int, _ isReady: (_ socket: CInt, _ reads: Bool, _ writes: Bool) -> Void) -> Bool {
        withUnsafeTemporaryAllocation(of: epoll_event.self, capacity: Self.batch) { events in
            let milliseconds = Self.milliseconds(until: moment)
            // A short wait avoids the timer's system call.
            let limit = milliseconds > 1000 ? setTimer(milliseconds, for: moment) : CInt(milliseconds)
            let count = epoll_wait(queue, events.baseAddress, CInt(Self.batch), limit)
            for event in events.prefix(max(0, Int(count))) {
                if event.data.fd == bell || event.data.fd == timer {
                    event.data.fd == bell ? stopRinging() : stopTimer()
                    continue
                }
                let hasFailed = event.events & (EPOLLERR.rawValue | EPOLLHUP.rawValue) != 0
                isReady(
                    event.data.fd, hasFailed || event.events & EPOLLIN.rawValue != 0,
                    hasFailed || event.events & EPOLLOUT.rawValue != 0)
            }
            return count == Self.batch
        }
    }
}
