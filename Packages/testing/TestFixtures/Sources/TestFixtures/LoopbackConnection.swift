@_spi(ChappieInternals) import ChappieFiles
import Glibc

/// A connection to a port of 127.0.0.1, on which a test decides every byte. Its calls block, so they are for the tests'
/// own threads.
public final class LoopbackConnection: Sendable {
    private let socket: Descriptor

    /// Connects to `port`.
    public init(port: Int) throws {
        socket = try Descriptor.tcpSocket()
        // A server that hangs makes the test fail, instead of hang.
        var limit = timeval(tv_sec: Int(Patience.limit.components.seconds), tv_usec: 0)
        setsockopt(socket.number, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        guard withLoopbackAddress(port: port, { connect(socket.number, $0, $1) }) == 0 else {
            throw FixtureFailure("no connection to port \(port): \(String(cString: strerror(errno)))")
        }
    }

    /// Sends all of `text`. If the peer has closed, this does not fail, and the test reads the end later.
    public func send(_ text: String) {
        let bytes = Array(text.utf8)
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes {
                Glibc.send(socket.number, $0.baseAddress, $0.count, CInt(MSG_NOSIGNAL))
            }
            guard count > 0 else { return }
            rest = rest.dropFirst(count)
        }
    }

    /// Returns the bytes up to the end of the connection. A reset counts as the end.
    public func rest() throws -> String {
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 64 << 10)
        while true {
            let count = recv(socket.number, &piece, piece.count, 0)
            if count < 0, errno == EAGAIN { throw FixtureFailure("the connection does not end") }
            guard count > 0 else { return String(decoding: bytes, as: UTF8.self) }
            bytes += piece[..<count]
        }
    }

    /// Makes the connection end with a reset when this value is released, which drops the bytes that are in transit.
    public func willReset() {
        var linger = linger(l_onoff: 1, l_linger: 0)
        setsockopt(socket.number, SOL_SOCKET, SO_LINGER, &linger, socklen_t(MemoryLayout<Glibc.linger>.size))
    }
}
