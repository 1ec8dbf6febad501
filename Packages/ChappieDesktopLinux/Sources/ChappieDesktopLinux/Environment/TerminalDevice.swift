#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// A terminal to write to; never a pipe or a file.
struct TerminalDevice {
    private let file: FileDescriptor

    /// Opens the terminal at `path`; `nil` when there is none.
    ///
    /// A description of its own, because not to block is a property of the description, and standard error's is shared
    /// with other programs.
    init?(path: String) {
        file = FileDescriptor(open(path, O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC))
        guard file.isOpen, isatty(file.number) == 1 else { return nil }
    }

    /// The terminal that `descriptor` is; `nil` when it is something else.
    init?(of descriptor: Int32) {
        var name = [CChar](repeating: 0, count: 256)
        guard isatty(descriptor) == 1, ttyname_r(descriptor, &name, name.count) == 0 else { return nil }
        let path = name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }
        self.init(path: String(decoding: path, as: UTF8.self))
    }

    /// The process's controlling terminal, otherwise the one behind standard error.
    static func current() -> TerminalDevice? { TerminalDevice(path: "/dev/tty") ?? TerminalDevice(of: STDERR_FILENO) }

    /// Writes `bytes`; `false` when the terminal does not take them within half a second, as one that is stopped.
    func write(_ bytes: [UInt8]) -> Bool {
        let end = ContinuousClock.now + .milliseconds(500)
        return bytes.withUnsafeBytes { buffer in
            var rest = buffer[...]
            while !rest.isEmpty {
                let count = writeSome(UnsafeRawBufferPointer(rebasing: rest))
                if count > 0 {
                    rest = rest.dropFirst(count)
                    continue
                }
                let left = end - .now
                guard count < 0, errno == EAGAIN || errno == EINTR, left > .zero else { return false }
                var ready = pollfd(fd: file.number, events: Int16(POLLOUT), revents: 0)
                let milliseconds = left.components.seconds * 1000 + left.components.attoseconds / 1_000_000_000_000_000
                _ = poll(&ready, 1, Int32(clamping: milliseconds + 1))
            }
            return true
        }
    }

    private func writeSome(_ buffer: UnsafeRawBufferPointer) -> Int {
        #if canImport(Glibc)
            Glibc.write(file.number, buffer.baseAddress, buffer.count)
        #elseif canImport(Musl)
            Musl.write(file.number, buffer.baseAddress, buffer.count)
        #elseif canImport(Darwin)
            Darwin.write(file.number, buffer.baseAddress, buffer.count)
        #endif
    }
}
