/// Masking keys that nobody can predict (RFC 6455, 10.3), from the system's generator; some at a time, since each call of
/// that is one of the kernel.
final class MaskingKeys {
    private static let batch = 64

    private var keys: [UInt32] = []

    init() {}

    func next() -> UInt32 {
        if let key = keys.popLast() { return key }
        var generator = SystemRandomNumberGenerator()
        keys = (1..<Self.batch).map { _ in generator.next() }
        return generator.next()
    }
}
