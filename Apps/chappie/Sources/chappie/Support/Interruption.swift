import Dispatch
import Glibc
import Synchronization

/// Ctrl-C and SIGTERM: the first asks the work to end, the second ends the process.
final class Interruption: Sendable {
    private let received = Mutex<Int32?>(nil)

    init(_ interrupt: @escaping @Sendable () -> Void) {
        for number in [SIGINT, SIGTERM] {
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
            source.setEventHandler { [weak self] in
                let isFirst = self?.received.withLock { received in
                    defer { received = received ?? number }
                    return received == nil
                }
                guard isFirst != true else { return interrupt() }
                TerminalEcho.restore()
                _exit(128 + number)
            }
            source.resume()
            // Kept for the life of the process: signals may come until its end.
            _ = Unmanaged.passRetained(source as AnyObject)
        }
    }

    /// 130 or 143 once a signal has come.
    var exitStatus: Int32? { received.withLock { $0.map { 128 + $0 } } }
}
