import FoundationEssentials
import Glibc

/// The TCP sockets of this machine at one moment: /proc/net/tcp of proc(5).
///
/// It shows what a test can't see otherwise: how far the two ends of a connection, and the kernel between them, are.
public struct TCPSocketTable {
    private struct Socket {
        let localPort: Int
        let remotePort: Int
        let state: State?
        /// Bytes that the program hasn't read; of a listener, connections that it hasn't accepted.
        let unread: Int
    }

    /// Those of include/net/tcp_states.h that matter here.
    private enum State: Int {
        case established = 1
        case connecting = 2
        case listening = 10
    }

    private let sockets: [Socket]

    /// Reads it.
    public init() throws {
        let text = try ProcFile.read("/proc/net/tcp")
        sockets = text.split(separator: "\n").dropFirst().compactMap { line in
            // Row, local and remote address, state, and the lengths of the two queues, all in hexadecimal.
            let fields = line.split(separator: " ")
            guard fields.count > 4 else { return nil }
            let numbers = [fields[1], fields[2], fields[3], fields[4]].map { field in
                field.split(separator: ":").last.flatMap { Int($0, radix: 16) } ?? 0
            }
            return Socket(
                localPort: numbers[0], remotePort: numbers[1], state: State(rawValue: numbers[2]), unread: numbers[3])
        }
    }

    /// Whether a process listens on `port`.
    public func isListening(on port: Int) -> Bool {
        sockets.contains { $0.state == .listening && $0.localPort == port }
    }

    /// How many connections wait for the listener on `port` to accept them.
    public func acceptQueueLength(of port: Int) -> Int {
        sockets.first { $0.state == .listening && $0.localPort == port }?.unread ?? 0
    }

    /// Whether a client of `port` waits for the kernel's answer.
    public func isBeingDialled(_ port: Int) -> Bool {
        sockets.contains { $0.state == .connecting && $0.remotePort == port }
    }

    /// Whether a client of `port` has sent what the server there hasn't read.
    public func hasUnreadBytes(at port: Int) -> Bool {
        sockets.contains { $0.state == .established && $0.localPort == port && $0.unread > 0 }
    }

    /// Whether the server on `port` has sent what a client of it hasn't read.
    public func hasUnreadBytes(from port: Int) -> Bool {
        sockets.contains { $0.state == .established && $0.remotePort == port && $0.unread > 0 }
    }
}

/// The threads of this process, as proc(5) shows them. One that ends while they are read is left out.
public enum ProcessThreads {
    /// Their names; the system cuts them off after 15 bytes.
    public static func names() throws -> [String] { try read("comm").map { $0.replacing("\n", with: "") } }

    /// How often the threads of this name have gone to sleep or been put aside; `nil` when there are none.
    public static func contextSwitches(ofThreadsNamed name: String) throws -> Int? {
        let threads = try read("status").filter { $0.hasPrefix("Name:\t\(name)\n") }
        guard !threads.isEmpty else { return nil }
        return threads.flatMap { $0.split(separator: "\n") }.filter { $0.contains("ctxt_switches") }
            .compactMap { $0.split(separator: "\t").last.flatMap { Int($0) } }.reduce(0, +)
    }

    private static func read(_ file: String) throws -> [String] {
        let threads = "/proc/self/task"
        return try FileManager.default.contentsOfDirectory(atPath: threads).compactMap {
            try? ProcFile.read("\(threads)/\($0)/\(file)")
        }
    }
}

enum ProcFile {
    /// The whole text. Such a file has no size and comes in small pieces, which Foundation takes for its end.
    static func read(_ path: String) throws -> String {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw FixtureFailure("\(path): \(String(cString: strerror(errno)))") }
        defer { close(descriptor) }
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 64 << 10)
        while true {
            let count = Glibc.read(descriptor, &chunk, chunk.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw FixtureFailure("\(path): \(String(cString: strerror(errno)))") }
            if count == 0 { return String(decoding: bytes, as: UTF8.self) }
            bytes += chunk[..<count]
        }
    }
}
