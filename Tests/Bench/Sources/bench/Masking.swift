@testable import ChappieWebSocket

/// Masking a payload into a frame of its own, as every frame that is sent is.
struct Masking: Measure {
    let name: String
    private let payload: [UInt8]
    private let rounds: Int

    init(size: Int) {
        name = "mask \(size) bytes"
        payload = (0..<size).map { UInt8(truncatingIfNeeded: $0) }
        rounds = max(1, (1 << 20) / size)
    }

    func run() -> Int {
        withUnsafeTemporaryAllocation(byteCount: payload.count + 3, alignment: 16) { room in
            payload.withUnsafeBytes { bytes in
                // Frames lie at any address.
                for round in 0..<rounds {
                    let place = UnsafeMutableRawBufferPointer(rebasing: room[(round & 3)...])
                    WebSocketFrameWriter.mask(bytes, into: place, key: UInt32(round))
                }
            }
            return rounds * payload.count
        }
    }
}
