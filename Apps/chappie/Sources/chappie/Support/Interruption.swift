import Dispatch
import Glibc
import Synchronization

/// Ctrl-C, SIGTERM and a terminal that is closed: the first asks the work to end, the second ends the process.
final class Interruption: Sendable {
    private let received = Mutex<Int32?>(nil)

    init(_ interrupt: @escaping @Sendable () -> Void) {
        for number in [SIGINT, SIGTERM, SIGHUP] {
            let before = signal(number, SIG_IGN)
            // nohup: the program is to outlive its terminal.
            if number == SIGHUP, Self.isIgnored(before) { continue }
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
            source.setEventHandler { [weak self] in
                let isFirst = self?.received.withLock { received in
                    defer { received = received ?? number }
                    return received == nil
                }
                guard isFirst != true else { return interrupt() }
                // Of a terminal that is closed both the system and the shell tell.
                guard number != SIGHUP else { return }
                TerminalEcho.restore()
                _exit(128 + number)
            }
            source.resume()
            // Kept for the life of the process: signals may come until its end.
            _ = Unmanaged.passRetained(source as AnyObject)
        }
    }

    /// C's functions can be compared by their addresses alone.
    private static func isIgnored(_ handler: sighandler_t?) -> Bool {
        unsafeBitCast(handler, to: Int.self) == unsafeBitCast(SIG_IGN, to: Int.self)
    }

    /// 129, 130 or 143 once a signal has come.
    var exitStatus: Int32? { received.withLock { $0.map { 128 + $0 } } }
}
