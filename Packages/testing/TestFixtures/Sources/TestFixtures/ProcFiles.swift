import FoundationEssentials
import Glibc

/// The TCP sockets of this machine at one moment: /proc/net/tcp of proc(5).
///
/// It shows what a test can't see otherwise: how far the two ends of a connection, and the kernel between them, are.
public struct TCPSocketTable {
    /// Of include/net/tcp_states.h.
    private static let (established, connecting, listening) = (1, 2, 10)

    /// Of the bytes that the program hasn't read; for a listener, of the connections that it hasn't accepted.
    private typealias Socket = (localPort: Int, remotePort: Int, state: Int, unread: Int)

    private let sockets: [Socket]

    /// Reads it.
    public init() throws {
        sockets = try ProcFile.read("/proc/net/tcp").split(separator: "\n").dropFirst().compactMap { line in
            // Row, local and remote address, state, and the lengths of the two queues, all in hexadecimal.
            let numbers = line.split(separator: " ").dropFirst().prefix(4).map { field in
                field.split(separator: ":").last.flatMap { Int($0, radix: 16) } ?? 0
            }
            return numbers.count == 4 ? (numbers[0], numbers[1], numbers[2], numbers[3]) : nil
        }
    }

    /// Whether a process listens on `port`.
    public func isListening(on port: Int) -> Bool {
        sockets.contains { $0.state == Self.listening && $0.localPort == port }
    }

    /// How many connections wait for the listener on `port` to accept them.
    public func acceptQueueLength(of port: Int) -> Int {
        sockets.first { $0.state == Self.listening && $0.localPort == port }?.unread ?? 0
    }

    /// Whether a client of `port` waits for the kernel's answer.
    public func isBeingDialled(_ port: Int) -> Bool {
        sockets.contains { $0.state == Self.connecting && $0.remotePort == port }
    }

    /// Whether a client of `port` has sent what the server there hasn't read.
    public func hasUnreadBytes(at port: Int) -> Bool {
        sockets.contains { $0.state == Self.established && $0.localPort == port && $0.unread > 0 }
    }

    /// Whether the server on `port` has sent what a client of it hasn't read.
    public func hasUnreadBytes(from port: Int) -> Bool {
        sockets.contains { $0.state == Self.established && $0.remotePort == port && $0.unread > 0 }
    }
}

/// The threads of this process, as proc(5) shows them. A thread that ends while they are read is left out.
public enum ProcessThreads {
    /// Their names; the system cuts them off after 15 bytes.
    public static func names() throws -> [String] { try read("comm").map { $0.replacing("\n", with: "") } }

    /// How often the threads of this name have gone to sleep or been put aside; `nil` when there are none.
    public static func contextSwitches(ofThreadsNamed name: String) throws -> Int? {
        let threads = try read("status").filter { $0.hasPrefix("Name:\t\(name)\n") }
        guard !threads.isEmpty else { return nil }
        let lines: [Substring] = threads.flatMap { $0.split(separator: "\n") }
        let counts: [Int] = lines.filter { $0.contains("ctxt_switches") }.compactMap { line in
            line.split(separator: "\t").last.flatMap { Int($0) }
        }
        return counts.reduce(0, +)
    }

    private static func read(_ file: String) throws -> [String] {
        let threads = "/proc/self/task"
        return try FileManager.default.contentsOfDirectory(atPath: threads).compactMap {
            try? ProcFile.read("\(threads)/\($0)/\(file)")
        }
    }
}

enum ProcFile {
    /// Returns the whole text. Such a file has no size and comes in small pieces, which Foundation takes for its end.
    static func read(_ path: String) throws -> String {
        let file = try Descriptor(opening: path, O_RDONLY)
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 64 << 10)
        while case let count = Glibc.read(file.number, &chunk, chunk.count), count != 0 {
            guard count > 0 || errno == EINTR else {
                throw FixtureFailure("\(path): \(String(cString: strerror(errno)))")
            }
            bytes += chunk.prefix(max(count, 0))
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}

/// How many files this process has open, also for other tests.
public func openDescriptors() throws -> Int {
    try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count
}
