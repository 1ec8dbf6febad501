@_spi(ChappieInternals) import ChappieFiles
import Glibc
import SystemPackage

/// A connection on 127.0.0.1, on which a test decides every byte. It is closed when it is released. Its calls block, so
/// they are for the tests' own threads.
public final class LoopbackConnection: Sendable {
    private let socket: Descriptor

    /// Connects to `port`.
    public init(port: Int) throws {
        socket = try Descriptor.socket(AF_INET)
        // A server that hangs makes the test fail, instead of hang.
        var limit = timeval(tv_sec: Int(Patience.limit.components.seconds), tv_usec: 0)
        setsockopt(socket.number, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        guard withLoopbackAddress(port: port, { connect(socket.number, $0, $1) }) == 0 else {
            throw FixtureFailure("no connection to port \(port): \(Errno.latest)")
        }
    }

    init(_ socket: Descriptor) { self.socket = socket }

    /// The system's number of the socket.
    public var number: CInt { socket.number }

    /// Sends all of `bytes`. Returns `false` if the peer has closed.
    @discardableResult
    public func send(_ bytes: [UInt8]) -> Bool {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes {
                Glibc.send(socket.number, $0.baseAddress, $0.count, CInt(MSG_NOSIGNAL))
            }
            guard count > 0 else { return false }
            rest = rest.dropFirst(count)
        }
        return true
    }

    /// Sends all of `text`. If the peer has closed, this does not fail, and the test reads the end later.
    public func send(_ text: String) { send(Array(text.utf8)) }

    /// Returns the next bytes. Returns an empty array at the end, and `nil` after a reset or if no byte arrives within a
    /// long time.
    public func receive(atMost limit: Int = 64 << 10) -> [UInt8]? { try? socket.readArrived(atMost: limit) }

    /// Returns exactly `count` bytes, or `nil` if the connection ends before that.
    public func receive(count: Int) -> [UInt8]? {
        var bytes: [UInt8] = []
        while bytes.count < count {
            guard let piece = receive(atMost: min(count - bytes.count, 64 << 10)), !piece.isEmpty else { return nil }
            bytes += piece
        }
        return bytes
    }

    /// Returns the text up to and including `mark`, or less if the connection ends before that.
    public func receive(until mark: String) -> String {
        var bytes: [UInt8] = []
        while !bytes.suffix(mark.utf8.count).elementsEqual(mark.utf8), let byte = receive(count: 1) { bytes += byte }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Returns the text up to the end of the connection. A reset counts as the end.
    public func rest() throws -> String {
        var bytes: [UInt8] = []
        do {
            while let piece = try socket.readArrived() {
                if piece.isEmpty { return String(decoding: bytes, as: UTF8.self) }
                bytes += piece
            }
        } catch {
            return String(decoding: bytes, as: UTF8.self)
        }
        throw FixtureFailure("the connection does not end")
    }

    /// Makes the connection end with a reset when this value is released, which drops the bytes that are in transit.
    public func willReset() {
        var linger = linger(l_onoff: 1, l_linger: 0)
        setsockopt(socket.number, SOL_SOCKET, SO_LINGER, &linger, socklen_t(MemoryLayout<Glibc.linger>.size))
    }

    /// Ends what this side sends.
    public func endSending() { shutdown(socket.number, CInt(SHUT_WR)) }

    /// Ends the connection, also for calls that wait.
    public func shutDown() { shutdown(socket.number, CInt(SHUT_RDWR)) }
}

/// A listener on 127.0.0.1 whose connections a test serves byte by byte.
public final class LoopbackListener: Sendable {
    /// The port on 127.0.0.1.
    public let port: Int
    private let socket: Descriptor

    /// Creates a listener.
    ///
    /// - Parameter receiveBuffer: The size of each connection's buffer in the kernel, in bytes. A small one keeps the
    ///   kernel from taking a message at once.
    public init(receiveBuffer: CInt? = nil) throws {
        let reserved = try ReservedPort()
        port = reserved.number
        socket = reserved.socket
        if var size = receiveBuffer {
            setsockopt(socket.number, SOL_SOCKET, SO_RCVBUF, &size, socklen_t(MemoryLayout<CInt>.size))
        }
        guard listen(socket.number, 16) == 0 else { throw FixtureFailure("port \(port): \(Errno.latest)") }
    }

    /// Waits for the next connection. Returns `nil` once the listener is closed.
    public func accept() -> LoopbackConnection? {
        guard let connection = try? Descriptor(Glibc.accept(socket.number, nil, nil)) else { return nil }
        connection.stopInheritance()
        return LoopbackConnection(connection)
    }

    /// Accepts no more connections.
    public func close() { shutdown(socket.number, CInt(SHUT_RDWR)) }
}
