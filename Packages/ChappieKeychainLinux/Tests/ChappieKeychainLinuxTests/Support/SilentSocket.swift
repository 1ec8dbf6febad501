import Foundation
import TestFixtures

/// A Unix socket that takes connections and never says a word.
final class SilentSocket {
    let path = "/tmp/chappie-keyring-\(UUID().uuidString.prefix(8)).sock"
    private let descriptor: Int32

    init() throws {
        descriptor = try Self.bound(to: path)
        guard listen(descriptor, 4) == 0 else { throw Self.failure(at: path) }
    }

    /// Makes a socket that nobody listens to, as a server that was killed leaves it.
    static func leaveBehind(at path: String) throws { close(try bound(to: path)) }

    private static func bound(to path: String) throws -> Int32 {
        let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        let status = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        guard status == 0 else { throw failure(at: path) }
        return descriptor
    }

    private static func failure(at path: String) -> FixtureFailure {
        FixtureFailure("can't listen on \(path): \(String(cString: strerror(errno)))")
    }

    deinit {
        close(descriptor)
        unlink(path)
    }

    /// Waits on a thread of its own: the tasks' threads are few, and the call that is to connect needs one of them.
    func waitForAConnection() async throws {
        let descriptor = descriptor
        let isConnected = try await onOwnThread {
            var listening = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            return poll(&listening, 1, 60_000) == 1
        }
        guard isConnected else { throw FixtureFailure("nobody connected to \(path)") }
    }
}
