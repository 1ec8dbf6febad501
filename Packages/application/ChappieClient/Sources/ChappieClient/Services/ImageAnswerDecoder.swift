@_spi(ChappieInternals) import ChappieCore

/// A decoder of the answer with a picture. It is sans-IO.
///
/// The Base64 text is decoded as it arrives, so that the answer is never in memory as text. The rest of the answer is
/// collected and parsed at the end.
struct ImageAnswerDecoder {
    /// The largest answer, in bytes.
    private static let limit = 64 << 20
    /// The largest part of the answer other than the picture, in bytes.
    private static let restLimit = 1 << 20
    private static let member = Array("b64_json".utf8)

    private enum State { case between, text, escape, picture, pictureEscape }

    private var state = State.between
    /// The beginning of the last text, as long as it may be the member's name.
    private var name: [UInt8] = []
    /// Whether the next text is a picture's Base64.
    private var isPictureNext = false
    private var byteCount = 0
    /// The answer without the text of pictures.
    private var rest: [UInt8] = []
    private var picture: [UInt8] = []
    /// Whether the text of a picture has begun.
    private var hasPicture = false
    /// Whether the first picture is complete. The text of later ones is skipped.
    private var isComplete = false
    private var isBroken = false
    /// The bits that do not fill a byte yet, and their number.
    private var bits: UInt32 = 0
    private var bitCount = 0

    /// Takes the next part of the answer.
    ///
    /// - Throws: `ChappieTransportError` if the answer is larger than 64 MiB.
    mutating func receive(_ chunk: [UInt8]) throws(ChappieTransportError) {
        byteCount += chunk.count
        guard byteCount <= Self.limit, rest.count <= Self.restLimit else {
            throw ChappieTransportError(
                .bodyTooLarge, stage: .responseBody, host: "",
                reason: "the answer has more than \(Self.limit >> 20) MiB")
        }
        for byte in chunk { receive(byte) }
    }

    private mutating func receive(_ byte: UInt8) {
        switch state {
        case .picture:
            switch byte {
            case UInt8(ascii: "\""): endPicture()
            case UInt8(ascii: "\\"): state = .pictureEscape
            default: if !isComplete { decode(byte) }
            }
            return
        case .pictureEscape:
            state = .picture
            // JSON may write a slash and line ends with a backslash.
            switch byte {
            case UInt8(ascii: "/"): if !isComplete { decode(byte) }
            case UInt8(ascii: "n"), UInt8(ascii: "r"): break
            default: isBroken = true
            }
            return
        case .between: between(byte)
        case .text:
            if byte == UInt8(ascii: "\\") {
                state = .escape
            } else if byte == UInt8(ascii: "\"") {
                state = .between
            } else if name.count <= Self.member.count {
                name.append(byte)
            }
        case .escape: state = .text
        }
        rest.append(byte)
    }

    private mutating func between(_ byte: UInt8) {
        switch byte {
        case UInt8(ascii: "\""):
            state = isPictureNext ? .picture : .text
            hasPicture = hasPicture || isPictureNext
            name = []
        case UInt8(ascii: ":"): isPictureNext = name == Self.member
        case 0x20, 0x09, 0x0A, 0x0D: break
        default: isPictureNext = false
        }
    }

    private mutating func endPicture() {
        state = .between
        isPictureNext = false
        isComplete = true
        rest.append(UInt8(ascii: "\""))
    }

    private mutating func decode(_ byte: UInt8) {
        guard byte != UInt8(ascii: "=") else { return }
        guard let value = Self.value(of: byte) else { return isBroken = true }
        bits = bits << 6 | value
        bitCount += 6
        guard bitCount >= 8 else { return }
        bitCount -= 8
        picture.append(UInt8(truncatingIfNeeded: bits >> UInt32(bitCount)))
    }

    /// Returns the value of a character of Base64 (RFC 4648, 4).
    private static func value(of byte: UInt8) -> UInt32? {
        switch byte {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): UInt32(byte - UInt8(ascii: "A"))
        case UInt8(ascii: "a")...UInt8(ascii: "z"): UInt32(byte - UInt8(ascii: "a")) + 26
        case UInt8(ascii: "0")...UInt8(ascii: "9"): UInt32(byte - UInt8(ascii: "0")) + 52
        case UInt8(ascii: "+"): 62
        case UInt8(ascii: "/"): 63
        default: nil
        }
    }

    /// Returns the picture after the end of the answer.
    ///
    /// - Throws: ``ChappieClientError``.
    consuming func finish() throws(ChappieClientError) -> ChappieGeneratedImage {
        guard let json = try? ChappieJSON(parsing: rest), json.object != nil else { throw .invalidResponse }
        guard hasPicture, !picture.isEmpty || isBroken else { throw .imageFailed(.noPicture) }
        let usage = json["usage"].flatMap { $0.object == nil ? nil : ChappieTokenUsage($0) }
        guard !isBroken, let image = ChappieGeneratedImage(bytes: picture, usage: usage) else {
            throw .imageFailed(.notAPicture)
        }
        return image
    }
}
