import Glibc
import Testing

/// A listening socket that nobody accepts from.
final class SilentListener {
    let port: Int
    private var descriptors: [CInt] = []

    /// - Parameters:
    ///   - backlog: how many connections the kernel completes by itself (plus one).
    ///   - filled: whether those places are taken already, so that a further connection gets no answer at all.
    init(backlog: CInt = 0, filled: Bool = true) throws {
        let listener = socket(AF_INET, CInt(SOCK_STREAM.rawValue), 0)
        try #require(listener >= 0)
        descriptors = [listener]
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let bound = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
                bind(listener, pointer, size) == 0 && listen(listener, backlog) == 0
                    && getsockname(listener, pointer, &size) == 0
            }
        }
        try #require(bound)
        port = Int(UInt16(bigEndian: address.sin_port))
        guard filled else { return }
        for _ in 0...(backlog + 1) {
            let client = socket(AF_INET, CInt(SOCK_STREAM.rawValue) | CInt(SOCK_NONBLOCK.rawValue), 0)
            descriptors.append(client)
            withUnsafePointer(to: &address) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { _ = connect(client, $0, size) }
            }
        }
    }

    func close() {
        for descriptor in descriptors { Glibc.close(descriptor) }
        descriptors = []
    }

    deinit { close() }
}
