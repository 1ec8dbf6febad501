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

    /// Whether somebody listens on `port`.
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
