/// The properties of an image that its bytes show without being decoded.
///
/// The bytes come from an untrusted source. Reading is bounded by their number, and an unexpected form gives `nil`.
@_spi(ChappieInternals) public struct ImageHead: Sendable, Hashable {
    /// The size in pixels, or `nil` if it is not found where the format defines it.
    public private(set) var size: Size?
    /// Whether the end of the image is missing.
    public private(set) var isCutOff = false

    /// A width and a height, in pixels.
    public struct Size: Sendable, Hashable {
        /// The number of columns.
        public let width: Int
        /// The number of rows.
        public let height: Int

        /// The number of squares of 32 by 32 pixels that cover the image. The service measures images in these.
        public var patches: Int { ((width + 31) / 32) * ((height + 31) / 32) }
    }

    /// Reads the head of an image of this format.
    public init(_ bytes: [UInt8], _ format: ChappieImage.Format) {
        switch format {
        case .png: readPNG(bytes)
        case .jpeg: readJPEG(bytes)
        case .gif: size = Self.size(Self.little(bytes, 6, 2), Self.little(bytes, 8, 2))
        case .webp: readWebP(bytes)
        }
    }

    /// Reads the chunks of PNG (https://www.w3.org/TR/png-3/#5Chunk-layout): a length, a type, the data and a checksum.
    private mutating func readPNG(_ bytes: [UInt8]) {
        if Self.name(bytes, 12) == "IHDR" { size = Self.size(Self.big(bytes, 16, 4), Self.big(bytes, 20, 4)) }
        var position = 8
        while let length = Self.big(bytes, position, 4), length <= bytes.count - position - 12 {
            if Self.name(bytes, position + 4) == "IEND" { return }
            position += 12 + length
        }
        isCutOff = true
    }

    /// Reads the segments of JPEG (ITU-T T.81, annex B) up to the first scan. The size is in a frame header, and an end
    /// marker follows the scans.
    private mutating func readJPEG(_ bytes: [UInt8]) {
        var position = 2
        while position + 4 <= bytes.count {
            guard bytes[position] == 0xFF else { return }
            let marker = bytes[position + 1]
            // Fill bytes may precede a marker, and some markers have no segment.
            guard marker != 0xFF, !(0xD0...0xD8).contains(marker), marker != 1 else {
                position += marker == 0xFF ? 1 : 2
                continue
            }
            guard let length = Self.big(bytes, position + 2, 2), length >= 2 else { return }
            if (0xC0...0xCF).contains(marker), ![0xC4, 0xC8, 0xCC].contains(marker), size == nil {
                size = Self.size(Self.big(bytes, position + 7, 2), Self.big(bytes, position + 5, 2))
            }
            if marker == 0xDA {
                let scan = bytes[position...]
                isCutOff = !zip(scan, scan.dropFirst()).contains { $0 == 0xFF && $1 == 0xD9 }
                return
            }
            position += 2 + length
        }
        isCutOff = true
    }

    /// Reads the first chunk of WebP (RFC 9649, 2).
    private mutating func readWebP(_ bytes: [UInt8]) {
        switch Self.name(bytes, 12) {
        case "VP8 ":
            size = Self.size(
                Self.little(bytes, 26, 2).map { $0 & 0x3FFF }, Self.little(bytes, 28, 2).map { $0 & 0x3FFF })
        case "VP8L":
            let bits = Self.little(bytes, 21, 4)
            size = Self.size(bits.map { $0 & 0x3FFF + 1 }, bits.map { $0 >> 14 & 0x3FFF + 1 })
        case "VP8X":
            size = Self.size(Self.little(bytes, 24, 3).map { $0 + 1 }, Self.little(bytes, 27, 3).map { $0 + 1 })
        default: break
        }
        isCutOff = Self.little(bytes, 4, 4).map { $0 + 8 > bytes.count } ?? true
    }

    private static func size(_ width: Int?, _ height: Int?) -> Size? {
        guard let width, let height, width > 0, height > 0 else { return nil }
        return Size(width: width, height: height)
    }

    /// Returns the number in the `count` bytes from `start`, which begin with the most significant one, or `nil` if
    /// there are fewer bytes.
    private static func big(_ bytes: [UInt8], _ start: Int, _ count: Int) -> Int? {
        guard start + count <= bytes.count else { return nil }
        return bytes[start..<start + count].reduce(0) { $0 << 8 | Int($1) }
    }

    private static func little(_ bytes: [UInt8], _ start: Int, _ count: Int) -> Int? {
        guard start + count <= bytes.count else { return nil }
        return bytes[start..<start + count].reversed().reduce(0) { $0 << 8 | Int($1) }
    }

    private static func name(_ bytes: [UInt8], _ start: Int) -> String? {
        guard start + 4 <= bytes.count else { return nil }
        return String(decoding: bytes[start..<start + 4], as: UTF8.self)
    }
}
