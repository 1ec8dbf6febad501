import ChappieAuth
import Glibc
import Synchronization
import TestFixtures
import Testing

@testable import ChappieLoopback

/// Who has sent a request, by the kernel's tables of sockets.
struct SocketOwnersTests {
    private static let nobody: uid_t = 65534
    private static let python = SystemProgram("/usr/bin/python3", packages: "python3")
    private static let setpriv = SystemProgram("setpriv", packages: "util-linux")
    private static let cannotChangeUsers: Comment = "only root can run a program as another user, and this is not root"

    private static let titles =
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"

    /// A row for a client at 127.0.0.1:50000 of a server at 127.0.0.1:1455.
    private static func row(_ address: String, uid: String, inode: String = "4711") -> String {
        "   0: \(address):C350 \(address):05AF 01 00000000:00000000 00:00000000 00000000 \(uid)        0 \(inode) 1\n"
    }

    private static let plain = "0100007F"
    private static let mapped = "0000000000000000FFFF00000100007F"

    private static func address(_ port: UInt16) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        address.sin_port = port.bigEndian
        return address
    }

    @Test(
        arguments: [
            ("own socket", [titles + row(plain, uid: "1000"), titles], .sameUser),
            ("own socket of IPv6", [titles, titles + row(mapped, uid: "1000")], .sameUser),
            ("another user's socket", [titles + row(plain, uid: "1001"), titles], .anotherUser),
            ("another user's socket of IPv6", [titles, titles + row(mapped, uid: "1001")], .anotherUser),
            ("a relay of root", [titles + row(plain, uid: "0"), titles], .unknown),
            ("a closed socket", [titles + row(plain, uid: "0", inode: "0"), titles], .anotherUser),
            ("a user that is no number", [titles + row(plain, uid: "x")], .anotherUser),
            ("other ports", [titles + row(plain, uid: "1001").replacing("C350", with: "C351")], .unknown),
            ("half a row", [titles + row(plain, uid: "1001").prefix(60)], .unknown),
            ("no table", [], .unknown),
        ] as [(String, [String], CallbackPeer)])
    func `the owner of the socket at the other end is the user`(
        _ name: String, _ tables: [String], _ peer: CallbackPeer
    ) {
        let owners = SocketOwners(tables: tables, user: 1000)
        #expect(owners.peer(from: Self.address(50_000), to: Self.address(1455)) == peer, "\(name)")
    }

    /// Listens, and collects the users of the requests.
    private static func listen() throws -> (listening: any CallbackListening, peers: Peers) {
        let peers = Peers()
        let listening = try LoopbackCallbackListener().listen { _, peer in
            peers.add(peer)
            return Array("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".utf8)
        }
        return (listening, peers)
    }

    private final class Peers: Sendable {
        private let peers = Mutex<[CallbackPeer]>([])
        var all: [CallbackPeer] { peers.withLock { $0 } }
        func add(_ peer: CallbackPeer) { peers.withLock { $0.append(peer) } }
    }

    /// A client that sends a request to `port` and waits for the answer.
    private static func client(_ port: Int, _ address: String = "127.0.0.1") -> [String] {
        [
            "-c",
            """
            import socket
            peer = socket.create_connection(("\(address)", \(port)), 60)
            peer.sendall(b"GET / HTTP/1.1\\r\\n\\r\\n")
            while peer.recv(4096): pass
            """,
        ]
    }

    @Test(.enabled(if: python.isUsable, "\(python.absence)"), arguments: ["127.0.0.1", "::ffff:127.0.0.1"])
    func `a program of this user is recognized`(address: String) async throws {
        let (listening, peers) = try Self.listen()
        try await Self.python.run(Self.client(listening.port, address))
        #expect(peers.all == [.sameUser])
    }

    @Test(
        .enabled(if: getuid() == 0, cannotChangeUsers),
        .enabled(if: [python, setpriv].areUsable, "\([python, setpriv].absence)"),
        arguments: ["127.0.0.1", "::ffff:127.0.0.1"])
    func `a program of another user is recognized`(address: String) async throws {
        let (listening, peers) = try Self.listen()
        try await Self.setpriv.run(
            ["--reuid=\(Self.nobody)", "--regid=\(Self.nobody)", "--clear-groups", Self.python.name]
                + Self.client(listening.port, address))
        #expect(peers.all == [.anotherUser])
    }
}
