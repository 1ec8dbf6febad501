/// Reads frames of ours as a server would, slowly and by the letter of RFC 6455, 5.2.
enum ClientFrameReader {
    struct Frame: Hashable {
        let first: UInt8
        let payload: [UInt8]
    }

    /// - Returns: `nil` when the bytes are not whole, masked frames with the shortest lengths.
    static func frames(_ bytes: [UInt8]) -> [Frame]? {
        var rest = bytes[...]
        var frames: [Frame] = []
        while let first = rest.popFirst() {
            guard let second = rest.popFirst(), second & 0x80 != 0 else { return nil }
            var length = Int(second & 0x7F)
            let extended = length == 126 ? 2 : length == 127 ? 8 : 0
            if extended > 0 {
                guard rest.count >= extended else { return nil }
                length = rest.prefix(extended).reduce(0) { $0 << 8 | Int($1) }
                rest = rest.dropFirst(extended)
                guard length > (extended == 2 ? 125 : 0xFFFF) else { return nil }
            }
            guard rest.count >= 4 + length else { return nil }
            let key = Array(rest.prefix(4))
            let payload = rest.dropFirst(4).prefix(length).enumerated().map { $0.element ^ key[$0.offset % 4] }
            rest = rest.dropFirst(4 + length)
            frames.append(Frame(first: first, payload: payload))
        }
        return frames
    }
}
