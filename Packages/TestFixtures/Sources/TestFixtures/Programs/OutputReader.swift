import Glibc
import Synchronization

/// What a program prints, as it comes. Its functions block: they are for threads of the tests' own.
public final class OutputReader: Sendable {
    private let descriptor: CInt
    private let pending = Mutex<[UInt8]>([])

    init(_ descriptor: CInt) { self.descriptor = descriptor }

    deinit { close(descriptor) }

    /// The next line; `nil` at the end, and when none comes in a long time.
    public func line() -> String? {
        pending.withLock { pending in
            while true {
                if let end = pending.firstIndex(of: UInt8(ascii: "\n")) {
                    defer { pending.removeSubrange(...end) }
                    return String(decoding: pending[..<end], as: UTF8.self)
                }
                guard readMore(into: &pending) else { return nil }
            }
        }
    }

    private func readMore(into pending: inout [UInt8]) -> Bool {
        let limit = CInt(Patience.limit / .milliseconds(1))
        var waiting = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        var chunk = [UInt8](repeating: 0, count: 4096)
        while true {
            let isReady = poll(&waiting, 1, limit)
            let count = isReady > 0 ? read(descriptor, &chunk, chunk.count) : Int(isReady)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return false }
            pending += chunk[..<count]
            return true
        }
    }
}
