/// An image for a model that accepts images.
///
/// ```swift
/// .user("What is this?", images: [try ChappieImage(path: "photo.jpg")])
/// ```
///
/// The image is PNG, JPEG, GIF or WebP. Its first bytes determine the format, not the file's name.
public struct ChappieImage: Sendable, Hashable {
    /// The resolution in which the model sees the image. Unknown values are kept.
    public struct Detail: RawRepresentable, Sendable, Hashable, Codable {
        public let rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }

        /// The model chooses.
        public static let auto = Detail(rawValue: "auto")
        /// A small version, which is fast and cheap.
        public static let low = Detail(rawValue: "low")
        /// Tiles of full resolution.
        public static let high = Detail(rawValue: "high")
        /// The original resolution, for models that list it.
        public static let original = Detail(rawValue: "original")
    }

    /// The kinds of images that models accept.
    public enum Format: String, Sendable, Hashable, Codable, CaseIterable {
        /// A kind, under its name in a media type.
        case png, jpeg, gif, webp

        /// Recognises an image by its first bytes, or returns `nil` for anything else.
        public init?(sniffing bytes: some Sequence<UInt8>) {
            let head = Array(bytes.prefix(12))
            if head.starts(with: [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]) {
                self = .png
            } else if head.starts(with: [0xFF, 0xD8, 0xFF]) {
                self = .jpeg
            } else if head.starts(with: "GIF87a".utf8) || head.starts(with: "GIF89a".utf8) {
                self = .gif
            } else if head.starts(with: "RIFF".utf8), head.dropFirst(8).elementsEqual("WEBP".utf8) {
                self = .webp
            } else {
                return nil
            }
        }

        /// The media type, such as `image/png`.
        public var mediaType: String { "image/\(rawValue)" }
    }

    /// The place from which the model gets the image.
    public enum Source: Sendable, Hashable {
        /// An address, which is a `data:` URL with the image in it, or a URL that the backend fetches.
        case url(String)
        /// The id of an upload at the backend.
        case fileID(String)
    }

    /// The limit for an image unless a call sets another: 8 MB. The service accepts about as much. A WebSocket message
    /// may have 16 MiB in total. A larger message is sent over HTTP.
    public static let defaultLimit = 8_000_000

    /// The largest number of squares of 32 by 32 pixels that the service accepts in one image.
    private static let patchLimit = 30_000

    /// The place from which the model gets the image.
    public let source: Source
    /// The resolution in which the model sees the image.
    public var detail: Detail

    /// Creates an image from a source, which is not checked.
    public init(source: Source, detail: Detail = .high) {
        self.source = source
        self.detail = detail
    }

    /// Creates an image with these bytes.
    ///
    /// - Parameters:
    ///   - bytes: The content of the image file.
    ///   - name: The image's name in messages, such as a file's name.
    ///   - detail: The detail in which the model sees the image. Default `.high`.
    ///   - limit: The limit in bytes. Default ``defaultLimit``.
    /// - Throws: ``ChappieAttachmentError``.
    public init(
        bytes: [UInt8], name: String? = nil, detail: Detail = .high, limit: Int = ChappieImage.defaultLimit
    ) throws(ChappieAttachmentError) {
        let name = name ?? "the image"
        guard bytes.count <= limit else { throw .imageTooLarge(name, bytes: bytes.count, limit: limit) }
        guard !bytes.isEmpty else { throw .empty(name) }
        guard let format = Format(sniffing: bytes) else { throw .unsupportedImage(name) }
        if let refusal = Self.refusal(of: bytes, format, name) { throw refusal }
        self.init(source: .url(DataURL.make(bytes, format.mediaType)), detail: detail)
    }

    /// Returns the reason why the service would not accept the image (too many pixels or a missing end), or `nil`.
    private static func refusal(of bytes: [UInt8], _ format: Format, _ name: String) -> ChappieAttachmentError? {
        let head = ImageHead(bytes, format)
        if let size = head.size, size.patches > patchLimit {
            return .tooManyPixels(name, width: size.width, height: size.height)
        }
        return head.isCutOff ? .cutOffImage(name) : nil
    }

    /// Returns the reason why the service would not accept the image in a `data:` URL, or `nil` for other URLs and
    /// formats.
    @_spi(ChappieInternals) public static func refusal(ofDataURL url: String, name: String) -> ChappieAttachmentError? {
        guard let size = DataURL.byteCount(of: url) else { return nil }
        guard size <= defaultLimit else { return .imageTooLarge(name, bytes: size, limit: defaultLimit) }
        guard let bytes = DataURL.bytes(of: url, limit: defaultLimit), let format = Format(sniffing: bytes) else {
            return nil
        }
        return refusal(of: bytes, format, name)
    }

    /// Creates an image with these bytes. See ``init(bytes:name:detail:limit:)``.
    public init(
        data: Data, name: String? = nil, detail: Detail = .high, limit: Int = ChappieImage.defaultLimit
    ) throws(ChappieAttachmentError) {
        try self.init(bytes: Array(data), name: name, detail: detail, limit: limit)
    }
}

/// A file for a model that accepts files, such as a PDF document.
///
/// ```swift
/// .user("Summarise this.", files: [try ChappieFile(path: "report.pdf")])
/// ```
public struct ChappieFile: Sendable, Hashable {
    /// The place from which the model gets the file.
    public enum Source: Sendable, Hashable {
        /// A `data:` address with the content in it.
        case data(String)
        /// An address that the backend fetches.
        case url(String)
        /// The id of an upload at the backend.
        case fileID(String)
    }

    /// The limit for a file unless a call sets another: 20 MiB.
    public static let defaultLimit = 20 << 20

    /// The name that the model sees.
    public var name: String?
    /// The place from which the model gets the file.
    public let source: Source

    /// Creates a file from a source, which is not checked.
    public init(name: String? = nil, source: Source) {
        self.name = name
        self.source = source
    }

    /// Creates a file with these bytes.
    ///
    /// - Parameters:
    ///   - bytes: The content of the file.
    ///   - name: The name that the model sees. Its ending determines the media type if the first bytes don't.
    ///   - mediaType: The media type, such as `application/pdf`. Default `nil`, which recognises it.
    ///   - limit: The limit in bytes. Default ``defaultLimit``.
    /// - Throws: ``ChappieAttachmentError``.
    public init(
        bytes: [UInt8], name: String, mediaType: String? = nil, limit: Int = ChappieFile.defaultLimit
    ) throws(ChappieAttachmentError) {
        guard bytes.count <= limit else { throw .tooLarge(name, limit: limit) }
        guard !bytes.isEmpty else { throw .empty(name) }
        let type = mediaType ?? Self.mediaType(of: bytes, named: name)
        self.init(name: name, source: .data(DataURL.make(bytes, type)))
    }

    /// Creates a file with these bytes. See ``init(bytes:name:mediaType:limit:)``.
    public init(
        data: Data, name: String, mediaType: String? = nil, limit: Int = ChappieFile.defaultLimit
    ) throws(ChappieAttachmentError) {
        try self.init(bytes: Array(data), name: name, mediaType: mediaType, limit: limit)
    }

    private static let types = [
        "csv": "text/csv", "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "html": "text/html", "json": "application/json", "md": "text/markdown", "pdf": "application/pdf",
        "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
        "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "xml": "text/xml",
    ]

    private static func mediaType(of bytes: [UInt8], named name: String) -> String {
        if let image = ChappieImage.Format(sniffing: bytes) { return image.mediaType }
        if bytes.starts(with: "%PDF-".utf8) { return "application/pdf" }
        if let dot = name.lastIndex(of: "."), let type = types[name[name.index(after: dot)...].lowercased()] {
            return type
        }
        return String(validating: bytes, as: UTF8.self) == nil ? "application/octet-stream" : "text/plain"
    }
}

/// The reason why an image or a file can't be sent. The strings identify it by its path or a description.
public enum ChappieAttachmentError: ChappieError, Hashable {
    /// The path does not exist.
    case notFound(String)
    /// The path leads to a folder.
    case isDirectory(String)
    /// The path leads to a pipe, a socket or a device.
    case notAFile(String)
    /// The file can't be read, with the system's reason.
    case unreadable(String, reason: String)
    /// It has more bytes than the limit.
    case tooLarge(String, limit: Int)
    /// The image has more bytes than the limit.
    case imageTooLarge(String, bytes: Int, limit: Int)
    /// The image has more pixels than the service accepts.
    case tooManyPixels(String, width: Int, height: Int)
    /// The end of the image is missing.
    case cutOffImage(String)
    /// It has no bytes.
    case empty(String)
    /// It is not an image of a supported kind.
    case unsupportedImage(String)
    /// Its address is not of a supported kind.
    case unsupportedURL(String)

    public var errorDescription: String? {
        switch self {
        case .notFound(let name): "There is no file \(name)."
        case .isDirectory(let name): "\(name) is a folder."
        case .notAFile(let name): "\(name) is not a regular file."
        case .unreadable(let name, let reason): "\(name) can't be read: \(reason)."
        case .tooLarge(let name, let limit):
            limit >= 1 << 20 && limit % (1 << 20) == 0
                ? "\(name) is over \(limit >> 20) MiB." : "\(name) is over \(limit) bytes."
        case .imageTooLarge(let name, let bytes, let limit):
            "\(name) has \(Self.size(bytes)); the service takes about \(Self.size(limit))."
        case .tooManyPixels(let name, let width, let height):
            "\(name) has \(width)x\(height) pixels; the service takes about 5500x5500."
        case .cutOffImage(let name): "The end of \(name) is missing."
        case .empty(let name): "\(name) is empty."
        case .unsupportedImage(let name): "\(name) is not an image that models accept."
        case .unsupportedURL(let what): "This kind of address is not supported: \(what)."
        }
    }

    public var recoverySuggestion: String? {
        switch self {
        case .notFound, .isDirectory, .notAFile, .unreadable: "Check the path."
        case .tooLarge: "Make it smaller, or send a part of it."
        case .imageTooLarge(let name, _, _), .tooManyPixels(let name, _, _):
            "Make it smaller: magick \(Self.shellWord(name)) -resize 2048x2048 small.jpg"
        case .cutOffImage: "Save it again, or download it again."
        case .empty: "Check the program that wrote it."
        case .unsupportedImage: "Convert it to PNG, JPEG, GIF or WebP."
        case .unsupportedURL: "Use https:, file: or a Base64 data: address."
        }
    }

    /// Returns a size such as `8.3 MB`, which is rounded up, or `700 bytes`.
    private static func size(_ bytes: Int) -> String {
        guard bytes >= 100_000 else { return "\(bytes) bytes" }
        let tenths = (bytes - 1) / 100_000 + 1
        return tenths % 10 == 0 ? "\(tenths / 10) MB" : "\(tenths / 10).\(tenths % 10) MB"
    }

    /// Returns the name if it is a file's name that a shell reads as one word, and `IMAGE` otherwise.
    private static func shellWord(_ name: String) -> String {
        let isPlain = name.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || "._/-".contains($0)) }
        return isPlain && name.contains(".") && !name.hasPrefix("-") ? name : "IMAGE"
    }
}

/// URLs that contain their own data (RFC 2397).
@_spi(ChappieInternals) public enum DataURL {
    static func make(_ bytes: [UInt8], _ mediaType: String) -> String {
        "data:\(mediaType);base64,\(Data(bytes).base64EncodedString())"
    }

    /// Returns the approximate number of bytes that a Base64 URL contains, or `nil` for other URLs.
    public static func byteCount(of url: String) -> Int? {
        digits(of: url).map { $0.count / 4 * 3 - $0.suffix(2).count { $0 == UInt8(ascii: "=") } }
    }

    private static func digits(of url: String) -> Substring.UTF8View? {
        guard let comma = url.utf8.firstIndex(of: UInt8(ascii: ",")), url[..<comma].lowercased().hasSuffix(";base64")
        else { return nil }
        return url.utf8[url.utf8.index(after: comma)...]
    }

    /// Returns the content of a Base64 URL, or `nil` for other URLs. If the content is longer than `limit` bytes, the
    /// result is also longer than that.
    public static func bytes(of url: String, limit: Int) -> [UInt8]? {
        guard let digits = digits(of: url) else { return nil }
        guard digits.count / 4 <= limit / 3 + 1 else { return [UInt8](repeating: 0, count: limit + 1) }
        return Data(base64Encoded: String(Substring(digits))).map(Array.init)
    }
}
