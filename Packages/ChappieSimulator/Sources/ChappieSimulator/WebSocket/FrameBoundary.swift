/// Follows the frames in a stream of sent bytes, to know when none is half sent (RFC 6455, 5.2).
struct FrameBoundary: Sendable {
    private var header: [UInt8] = []
    private var payloadLeft = 0

    /// Whether the next byte starts a frame.
    var isReached: Bool { header.isEmpty && payloadLeft == 0 }

    mutating func sent(_ bytes: [UInt8]) {
        var rest = bytes[...]
        while !rest.isEmpty {
            if payloadLeft > 0 {
                let count = min(payloadLeft, rest.count)
                rest = rest.dropFirst(count)
                payloadLeft -= count
                continue
            }
            guard let byte = rest.popFirst() else { return }
            header.append(byte)
            guard let size = FrameHeader.size(of: header), header.count == size else { continue }
            payloadLeft = FrameHeader.payloadLength(in: header) ?? .max
            header = []
        }
    }
}
