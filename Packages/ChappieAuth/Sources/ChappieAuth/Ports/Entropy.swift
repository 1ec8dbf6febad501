/// Unpredictable bytes.
public protocol Entropy: Sendable {
    /// `count` bytes fit for keys and verifiers.
    ///
    /// - Throws: ``ChappieAuthError/secureRandomFailed(statusCode:)`` when the system has none to give.
    func bytes(_ count: Int) throws -> [UInt8]
}

/// The system's generator (getrandom(2) on Linux, arc4random on Apple platforms), through Swift's own.
public struct SystemEntropy: Entropy {
    public init() {}

    public func bytes(_ count: Int) -> [UInt8] {
        var generator = SystemRandomNumberGenerator()
        return (0..<max(count, 0)).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
    }
}
