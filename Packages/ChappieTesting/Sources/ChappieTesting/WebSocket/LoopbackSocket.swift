#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Sockets on 127.0.0.1, and a thread for them.
enum LoopbackSocket {
    /// A listening socket on a free port; `nil` with errno.
    static func listen() -> (descriptor: CInt, port: Int)? {
        #if canImport(Glibc)
            let descriptor = socket(AF_INET, CInt(SOCK_STREAM.rawValue) | CInt(SOCK_NONBLOCK.rawValue), 0)
        #else
            let descriptor = socket(AF_INET, SOCK_STREAM, 0)
            _ = fcntl(descriptor, F_SETFL, O_NONBLOCK)
        #endif
        guard descriptor >= 0 else { return nil }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isListening = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
                bind(descriptor, pointer, size) == 0 && systemListen(descriptor)
                    && getsockname(descriptor, pointer, &size) == 0
            }
        }
        guard isListening else {
            systemClose(descriptor)
            return nil
        }
        return (descriptor, Int(UInt16(bigEndian: address.sin_port)))
    }

    /// The next connection, without Nagle's delay; negative when there is none.
    static func accept(_ listener: CInt) -> CInt {
        let descriptor = systemAccept(listener)
        if descriptor >= 0 {
            var on: CInt = 1
            setsockopt(descriptor, CInt(IPPROTO_TCP), TCP_NODELAY, &on, socklen_t(MemoryLayout<CInt>.size))
        }
        return descriptor
    }

    /// Closes with FIN, or abruptly with RST.
    static func close(_ descriptor: CInt, abruptly: Bool) {
        if abruptly {
            var linger = linger(l_onoff: 1, l_linger: 0)
            setsockopt(
                descriptor, SOL_SOCKET, SO_LINGER, &linger, socklen_t(MemoryLayout.size(ofValue: linger)))
        } else {
            // Bytes that nobody has read would turn the end into a reset.
            shutdown(descriptor, CInt(SHUT_WR))
            var rest = [UInt8](repeating: 0, count: 65_536)
            while recv(descriptor, &rest, rest.count, CInt(MSG_DONTWAIT)) > 0 {}
        }
        systemClose(descriptor)
    }

    /// Runs `body` on a detached thread; without one there is nothing to test with.
    static func startThread(_ body: @escaping @Sendable () -> Void) {
        let box = Unmanaged.passRetained(ThreadBody(body))
        var attributes = pthread_attr_t()
        pthread_attr_init(&attributes)
        defer { pthread_attr_destroy(&attributes) }
        pthread_attr_setdetachstate(&attributes, CInt(PTHREAD_CREATE_DETACHED))
        #if canImport(Darwin)
            var thread: pthread_t?
            let failure = pthread_create(&thread, &attributes, { runThread($0) }, box.toOpaque())
        #else
            var thread = pthread_t()
            let failure = pthread_create(&thread, &attributes, { runThread($0) }, box.toOpaque())
        #endif
        precondition(failure == 0, "the system has no thread left")
    }
}

private final class ThreadBody: Sendable {
    let run: @Sendable () -> Void
    init(_ run: @escaping @Sendable () -> Void) { self.run = run }
}

private func runThread(_ context: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
    guard let context else { return nil }
    Unmanaged<ThreadBody>.fromOpaque(context).takeRetainedValue().run()
    return nil
}

// The C functions whose names the enum's own members hide.
private func systemListen(_ descriptor: CInt) -> Bool { listen(descriptor, 1024) == 0 }
private func systemAccept(_ descriptor: CInt) -> CInt { accept(descriptor, nil, nil) }
private func systemClose(_ descriptor: CInt) { close(descriptor) }
