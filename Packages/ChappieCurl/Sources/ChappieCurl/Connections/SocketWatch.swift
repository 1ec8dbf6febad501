import CCurl

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Sockets by name, and which of them are ready: waiting for one descriptor waits for them all.
struct SocketWatch: ~Copyable {
    struct Ready {
        var name: UInt64
        var reads: Bool
        var writes: Bool
    }

    let descriptor: CInt
    private let buffer: UnsafeMutableBufferPointer<ccurl_ready>

    /// `nil` when the process has no descriptor left, or the platform no such thing.
    init?() {
        let descriptor = ccurl_watch_open()
        guard descriptor >= 0 else { return nil }
        self.descriptor = descriptor
        buffer = .allocate(capacity: 128)
        buffer.initialize(repeating: ccurl_ready())
    }

    deinit {
        close(descriptor)
        buffer.deallocate()
    }

    /// What `socket` is watched for from now on; for nothing takes it out. Whether that worked.
    @discardableResult
    func set(_ socket: CInt, named name: UInt64, reads: Bool, writes: Bool) -> Bool {
        ccurl_watch_set(descriptor, socket, name, reads, writes) == 0
    }

    /// Some of those that are ready; the others next time.
    func collect() -> [Ready] {
        let count = ccurl_watch_collect(descriptor, buffer.baseAddress, CInt(buffer.count))
        return buffer.prefix(max(0, Int(count))).map { Ready(name: $0.name, reads: $0.reads, writes: $0.writes) }
    }
}
