@_spi(ChappieInternals) import ChappieFiles
import FoundationEssentials
import Glibc

/// The TCP sockets of this machine at one moment, from /proc/net/tcp (proc(5)).
///
/// It shows the state of the two ends of a connection, and of the kernel between them, which a test can't see
/// otherwise.
public struct TCPSocketTable {
    /// The states of include/net/tcp_states.h.
    private static let (established, connecting, listening) = (1, 2, 10)

    /// A socket. `unread` counts the bytes that the program hasn't read or, for a listener, the connections that it
    /// hasn't accepted.
    private typealias Socket = (localPort: Int, remotePort: Int, state: Int, unread: Int)

    private let sockets: [Socket]

    /// Reads the table.
    public init() throws {
        sockets = try ProcFile.read("/proc/net/tcp").split(separator: "\n").dropFirst().compactMap { line in
            // Row, local and remote address, state, and the lengths of the two queues, all in hexadecimal.
            let numbers = line.split(separator: " ").dropFirst().prefix(4).map { field in
                field.split(separator: ":").last.flatMap { Int($0, radix: 16) } ?? 0
            }
            return numbers.count == 4 ? (numbers[0], numbers[1], numbers[2], numbers[3]) : nil
        }
    }

    /// Returns whether a process listens on `port`.
    public func isListening(on port: Int) -> Bool {
        sockets.contains { $0.state == Self.listening && $0.localPort == port }
    }

    /// Returns the number of connections that wait for the listener on `port` to accept them.
    public func acceptQueueLength(of port: Int) -> Int {
        sockets.first { $0.state == Self.listening && $0.localPort == port }?.unread ?? 0
    }

    /// Returns whether a client of `port` waits for the kernel's answer.
    public func isBeingDialled(_ port: Int) -> Bool {
        sockets.contains { $0.state == Self.connecting && $0.remotePort == port }
    }

    /// Returns whether a client of `port` has sent bytes that the server there hasn't read.
    public func hasUnreadBytes(at port: Int) -> Bool {
        sockets.contains { $0.state == Self.established && $0.localPort == port && $0.unread > 0 }
    }

    /// Returns whether the server on `port` has sent bytes that a client of it hasn't read.
    public func hasUnreadBytes(from port: Int) -> Bool {
        sockets.contains { $0.state == Self.established && $0.remotePort == port && $0.unread > 0 }
    }
}

/// The threads of this process, as proc(5) shows them. A thread that ends while they are read is left out.
public enum ProcessThreads {
    /// Returns their names, which the system cuts off after 15 bytes.
    public static func names() throws -> [String] { try read("comm").map { $0.replacing("\n", with: "") } }

    /// Returns the number of context switches of the threads with this name, or `nil` if there are none. A context
    /// switch puts a thread to sleep or aside.
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
    /// Returns the complete text. Such a file has no size and comes in small pieces, which Foundation takes for its
    /// end.
    static func read(_ path: String) throws -> String {
        String(decoding: try WholeFile.contents(of: path, limit: .max), as: UTF8.self)
    }
}

/// Returns the number of files that this process has open, including those of other tests.
public func openDescriptors() throws -> Int {
    try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count
}
