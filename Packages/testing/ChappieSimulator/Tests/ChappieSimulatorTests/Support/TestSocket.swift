import Glibc

/// A blocking client socket: the simplest real peer there is.
final class TestSocket {
    enum Ending: Equatable {
        case endOfStream(String)
        case reset(String)
        case failed(Int32)
    }

    struct ConnectFailed: Error {
        let code: Int32
    }

    private let descriptor: Int32
    private var unread: ArraySlice<UInt8> = []
    private var ending: Result<Int, ConnectFailed>?

    /// - Parameter patience: seconds to wait for bytes, at most.
    init(port: Int, patience: Double = 120) throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = in_port_t(UInt16(port).bigEndian)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let result = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        // A server that never answers must fail the test, not hang it.
        var limit = timeval(tv_sec: Int(patience), tv_usec: Int((patience - patience.rounded(.down)) * 1_000_000))
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        guard result == 0 else { throw ConnectFailed(code: errno) }
    }

    deinit { close(descriptor) }

    func send(_ text: String) { send(Array(text.utf8)) }

    func send(_ bytes: [UInt8]) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes {
                Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { return }
            rest = rest.dropFirst(count)
        }
    }

    /// Reads until `mark` has come and gives everything up to and with it; less when the connection ends first.
    func receive(until mark: String) -> String {
        let wanted = Array(mark.utf8)
        var seen: [UInt8] = []
        while true {
            if seen.count >= wanted.count, seen.suffix(wanted.count).elementsEqual(wanted) { break }
            if unread.isEmpty, case .failure = refill() { break }
            guard let byte = unread.popFirst() else { break }
            seen.append(byte)
        }
        return String(decoding: seen, as: UTF8.self)
    }

    /// Exactly so many bytes; `nil` when the connection ends first.
    func receive(count: Int) -> [UInt8]? {
        while unread.count < count { guard case .success(1...) = refill() else { return nil } }
        defer { unread = unread.dropFirst(count) }
        return Array(unread.prefix(count))
    }

    func receiveToEnd() -> Ending {
        while case .success(1...) = refill() {}
        let seen = String(decoding: unread, as: UTF8.self)
        unread = []
        return switch ending {
        case .failure(let error) where error.code == ECONNRESET: .reset(seen)
        case .failure(let error): .failed(error.code)
        default: .endOfStream(seen)
        }
    }

    /// An ending is remembered: the system tells of a reset only once.
    private func refill() -> Result<Int, ConnectFailed> {
        if let ending { return ending }
        var chunk = [UInt8](repeating: 0, count: 65536)
        let count = recv(descriptor, &chunk, chunk.count, 0)
        let result: Result<Int, ConnectFailed> = count < 0 ? .failure(ConnectFailed(code: errno)) : .success(count)
        if count <= 0 { ending = result } else { unread.append(contentsOf: chunk[..<count]) }
        return result
    }
}
