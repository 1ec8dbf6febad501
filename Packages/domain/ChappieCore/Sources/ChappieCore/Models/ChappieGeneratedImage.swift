/// A picture that the service has made.
///
/// ```swift
/// let image = try await client.generateImage(ChappieImageRequest("a red fox in the snow"))
/// try Data(image.bytes).write(to: URL(filePath: "fox.\(image.fileExtension)"))
/// ```
public struct ChappieGeneratedImage: Sendable, Hashable {
    /// The content of an image file.
    public let bytes: [UInt8]
    /// The kind of image, which its first bytes determine: PNG, JPEG or WebP.
    public let format: ChappieImage.Format
    /// The number of columns, read from ``bytes``. It can differ from the size that the request names.
    public let width: Int
    /// The number of rows, read from ``bytes``.
    public let height: Int
    /// The tokens that the picture used, if the service reports them.
    public var usage: ChappieTokenUsage?

    /// The media type, such as `image/png`.
    public var mediaType: String { format.mediaType }

    /// The usual ending of a file's name, without a dot.
    public var fileExtension: String { format == .jpeg ? "jpg" : format.rawValue }

    /// Creates a picture from the content of an image file.
    ///
    /// - Returns: `nil` if it is not PNG, JPEG or WebP, has no size where the format defines it, or lacks its end.
    public init?(bytes: [UInt8], usage: ChappieTokenUsage? = nil) {
        guard let format = ChappieImage.Format(sniffing: bytes), format != .gif else { return nil }
        let head = ImageHead(bytes, format)
        guard let size = head.size, !head.isCutOff else { return nil }
        self.bytes = bytes
        self.format = format
        width = size.width
        height = size.height
        self.usage = usage
    }

    /// Creates a picture from a part of a tool's output or of a message, or returns `nil` for other parts.
    @_spi(ChappieInternals) public init?(part: ChappieJSON) {
        guard let url = Self.dataURL(of: part), let bytes = DataURL.bytes(of: url, limit: Self.limit) else {
            return nil
        }
        self.init(bytes: bytes)
    }

    /// The largest number of bytes of a picture, which is that of 64 MiB of Base64.
    @_spi(ChappieInternals) public static let limit = 48 << 20

    /// Returns the `data:` URL in a part of the type `input_image`, or `nil` for other parts.
    @_spi(ChappieInternals) public static func dataURL(of part: ChappieJSON) -> String? {
        guard part["type"]?.string == "input_image", let url = part["image_url"]?.string, url.hasPrefix("data:") else {
            return nil
        }
        return url
    }

    /// The picture as a part of a tool's output, in the form of the Responses API.
    @_spi(ChappieInternals) public var part: ChappieJSON {
        ["type": "input_image", "image_url": .string(DataURL.make(bytes, mediaType)), "detail": "high"]
    }
}
