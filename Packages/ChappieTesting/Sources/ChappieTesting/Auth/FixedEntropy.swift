public import ChappieAuth

/// ``Entropy`` that gives the same bytes every time: `start`, `start` + 1, and so on, wrapping around.
public struct FixedEntropy: Entropy {
    private let start: UInt8

    /// - Parameter start: the first byte of every answer. Default 0.
    public init(startingAt start: UInt8 = 0) { self.start = start }

    public func bytes(_ count: Int) -> [UInt8] {
        (0..<max(count, 0)).map { start &+ UInt8(truncatingIfNeeded: $0) }
    }
}
