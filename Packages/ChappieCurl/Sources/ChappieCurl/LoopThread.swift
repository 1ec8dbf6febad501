// Some of the C library's types come to Swift by way of curl.h.
import CCurl

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// curl's process-wide state.
enum CurlGlobal {
    /// Sets it up, once; whether that worked. From 7.84 on this is safe whatever other threads do.
    static let isReady: Bool = {
        ccurl_keep_openssl_until_the_end()
        let everything = 3  // CURL_GLOBAL_ALL, a macro that Swift can't read
        return curl_global_init(everything) == CURLE_OK
    }()
}

/// Ends the sleep of a loop's thread, from any other.
final class LoopBell: Sendable {
    let descriptor: CInt

    /// `nil` when the process has no descriptor left.
    init?() {
        descriptor = ccurl_bell_open()
        if descriptor < 0 { return nil }
    }

    deinit { close(descriptor) }

    func ring() { ccurl_bell_ring(descriptor) }
}

/// Starts the thread of a network loop.
enum LoopThread {
    /// Runs `body` on a new detached thread with every signal blocked.
    ///
    /// Signals are for the program's own threads; above all, a write to a connection that the peer has closed must be an
    /// error here and not a SIGPIPE.
    ///
    /// - Returns: whether the system gave a thread.
    static func start(_ body: @escaping @Sendable () -> Void) -> Bool {
        let box = Unmanaged.passRetained(Body(body))
        var attributes = pthread_attr_t()
        pthread_attr_init(&attributes)
        defer { pthread_attr_destroy(&attributes) }
        pthread_attr_setdetachstate(&attributes, CInt(PTHREAD_CREATE_DETACHED))

        var everySignal = sigset_t()
        var previous = sigset_t()
        sigfillset(&everySignal)
        // The new thread inherits the mask, so that there is no moment in which it has another.
        pthread_sigmask(SIG_SETMASK, &everySignal, &previous)
        defer { pthread_sigmask(SIG_SETMASK, &previous, nil) }

        #if canImport(Darwin)
            var thread: pthread_t?
            let failure = pthread_create(&thread, &attributes, { runLoopThread($0) }, box.toOpaque())
        #else
            var thread = pthread_t()
            let failure = pthread_create(&thread, &attributes, { runLoopThread($0) }, box.toOpaque())
        #endif
        if failure != 0 { box.release() }
        return failure == 0
    }

    fileprivate final class Body: Sendable {
        let run: @Sendable () -> Void
        init(_ run: @escaping @Sendable () -> Void) { self.run = run }
    }
}

private func runLoopThread(_ context: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
    nameThread("chappie-net")
    guard let context else { return nil }
    Unmanaged<LoopThread.Body>.fromOpaque(context).takeRetainedValue().run()
    return nil
}

/// For debuggers and `top -H`; nothing depends on it.
private func nameThread(_ name: StaticString) {
    #if canImport(Darwin)
        pthread_setname_np("\(name)")
    #else
        // pthread_setname_np is a GNU extension that Swift's import of the C library leaves out.
        let descriptor = open("/proc/thread-self/comm", O_WRONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return }
        _ = write(descriptor, name.utf8Start, name.utf8CodeUnitCount)
        close(descriptor)
    #endif
}
