import CMain
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
import Glibc
import Synchronization

/// The end of the program if the system does not allow a thread that it needs. Otherwise libdispatch would try to start
/// the thread forever.
enum ThreadShortage {
    /// The maximum number of threads that a command needs for the network and a name lookup, the tasks, the output and
    /// the store.
    private static let usualCount: CInt = 8
    /// The time, in seconds, that the work has to end after a thread was missing. A renewed sign-in may have to be
    /// stored.
    private static let grace: CUnsignedInt = 2

    private static let isReported = Atomic(false)
    private static let asJSON = Atomic(false)

    private static let error = CommandLineError(
        .unavailable, code: "no_threads",
        "The system allows no more threads (ulimit -u, or the container's pids limit).",
        suggestion: "Raise the limit, or end other programs.")

    /// Ends the program at once if the usual threads cannot be started, and later at the first thread that cannot be
    /// started.
    static func endsTheProgram(asJSON json: Bool) {
        guard cmain_can_start_threads(usualCount) else { error.end(asJSON: json) }
        asJSON.store(json, ordering: .relaxed)
        cmain_on_missing_thread {
            // Another thread that is missing in the meantime is the same shortage.
            guard !ThreadShortage.isReported.exchange(true, ordering: .acquiringAndReleasing) else { return }
            ThreadShortage.error.show(asJSON: ThreadShortage.asJSON.load(ordering: .relaxed))
            Interruption.reportThreadShortage()
            sleep(ThreadShortage.grace)
            TerminalEcho.restore()
            _exit(ThreadShortage.error.status.rawValue)
        }
    }
}

extension CommandLineError {
    /// Writes the error at once without ``Console``, which needs a thread.
    fileprivate func show(asJSON: Bool) {
        if asJSON { try? Descriptor.standardOutput.write(Array("\(json.serialized())\n".utf8)) }
        let advice = suggestion.map { "         \($0)\n" } ?? ""
        try? Descriptor.standardError.write(Array("chappie: \(message)\n\(advice)".utf8))
    }

    /// Writes the error and ends the program before there is a thread for the error.
    func end(asJSON: Bool) -> Never {
        show(asJSON: asJSON)
        _exit(status.rawValue)
    }
}

/// Runs `body` on a new thread.
func startThread(_ body: @escaping @Sendable () -> Void) {
    final class Body: Sendable {
        let run: @Sendable () -> Void
        init(_ run: @escaping @Sendable () -> Void) { self.run = run }
    }
    var thread = pthread_t()
    let body = Unmanaged.passRetained(Body(body))
    let failure = pthread_create(
        &thread, nil,
        { context in
            if let context { Unmanaged<Body>.fromOpaque(context).takeRetainedValue().run() }
            return nil
        }, body.toOpaque())
    if failure == 0 { pthread_detach(thread) }
}
