import Glibc

/// A port of 127.0.0.1 that nobody else is given while this lives, for a program that has to be told its port.
///
/// The socket is bound and never listens. With SO_REUSEADDR on both sides, which servers set, the program may bind
/// beside it (socket(7)); to anybody who asks for any port, or connects from one, the kernel gives another.
final class ReservedPort: Sendable {
    let number: Int
    private let descriptor: CInt

    init() throws { (descriptor, number) = try LoopbackAddress.boundSocket(options: SO_REUSEADDR) }

    deinit { close(descriptor) }
}
