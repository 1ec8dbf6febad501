@_spi(ChappieInternals) import ChappieCore

/// A picture of a thread whose bytes the thread has. The bytes may come from anybody, and they alone determine the kind.
struct ThreadPicture {
    /// The address with the bytes, as the thread has it.
    private let source: String
    private let format: ChappieImage.Format
    private let byteCount: Int
    private let size: ImageHead.Size?

    /// The largest picture, in bytes. The service makes none as large.
    private static let limit = 64 << 20

    /// Reads a part of a message or of a tool's output. Returns `nil` unless it has the bytes of a picture.
    init?(_ part: ChappieJSON) {
        guard part["type"] == "input_image", let url = part["image_url"]?.string else { return nil }
        self.init(url: url)
    }

    /// Reads a picture that the service has made, which is Base64 without a media type.
    init?(result: String?) {
        guard let result else { return nil }
        self.init(url: "data:;base64," + result)
    }

    init?(url: String) {
        guard url.hasPrefix("data:"), let bytes = DataURL.bytes(of: url, limit: Self.limit),
            bytes.count <= Self.limit, let format = ChappieImage.Format(sniffing: bytes)
        else { return nil }
        source = url
        self.format = format
        byteCount = bytes.count
        size = ImageHead(bytes, format).size
    }

    /// The picture in a `data:` address with its own media type.
    var url: String {
        let digits = source.utf8.drop { $0 != UInt8(ascii: ",") }.dropFirst()
        return "data:\(format.mediaType);base64,\(Substring(digits))"
    }

    /// The ending of a file's name.
    var fileExtension: String { format == .jpeg ? "jpg" : format.rawValue }

    /// The picture as text: `picture: image/png, 1024×1536, 2.1 MB`.
    var words: String {
        let pixels = size.map { "\($0.width)×\($0.height)" }
        return "picture: "
            + [format.mediaType, pixels, Self.words(byteCount)].compactMap(\.self).joined(separator: ", ")
    }

    private static func words(_ byteCount: Int) -> String {
        guard byteCount >= 1_000_000 else { return "\(max(byteCount / 1000, 1)) KB" }
        return "\(byteCount / 1_000_000).\(byteCount / 100_000 % 10) MB"
    }
}

extension ChappieInputMessage.Part {
    /// The picture, if the part has the bytes of one.
    var picture: ThreadPicture? {
        guard case .image(let image) = self, case .url(let url) = image.source else { return nil }
        return ThreadPicture(url: url)
    }
}

/// A picture that a document refers to by the name of a file.
public struct ChappieThreadPicture: Sendable, Hashable {
    /// The name of the file next to the document.
    public let fileName: String
    private let url: String

    init(_ picture: ThreadPicture, named name: String) {
        fileName = "\(name).\(picture.fileExtension)"
        url = picture.url
    }

    /// The content of the file.
    public var bytes: [UInt8] { DataURL.bytes(of: url, limit: url.utf8.count) ?? [] }
}
