/// An image for a model that takes images.
///
/// ```swift
/// .user("What is this?", images: [try ChappieImage(path: "photo.jpg")])
/// ```
///
/// PNG, JPEG, GIF and WebP, recognised by their first bytes; a file's name says nothing.
public struct ChappieImage: Sendable, Hashable {
    /// How closely the model looks; unknown values survive.
    public struct Detail: RawRepresentable, Sendable, Hashable, Codable {
        public let rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }

        /// The model chooses.
        public static let auto = Detail(rawValue: "auto")
        /// A small version: quick and cheap.
        public static let low = Detail(rawValue: "low")
        /// In tiles of full sharpness.
        public static let high = Detail(rawValue: "high")
        /// As it is, for models that list it.
        public static let original = Detail(rawValue: "original")
    }

    /// The kinds of images that models take.
    public enum Format: String, Sendable, Hashable, Codable, CaseIterable {
        /// The kind's name in a media type.
        case png, jpeg, gif, webp

        /// Recognises an image by its first bytes; `nil` for anything else.
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

        /// `image/png`, …
        public var mediaType: String { "image/\(rawValue)" }
    }

    /// Where the model gets the image from.
    public enum Source: Sendable, Hashable {
        /// An address: `data:` with the image in it, or one that the backend fetches.
        case url(String)
        /// An upload that the backend knows.
        case fileID(String)
    }

    /// 20 MiB, the largest image taken unless a call says otherwise. Over WebSocket a message has 16 MiB in all; a larger one
    /// travels over HTTP.
    public static let defaultLimit = 20 << 20

    /// Where the model gets the image from.
    public let source: Source
    /// How closely the model looks.
    public var detail: Detail

    /// An image from a place; nothing is checked.
    public init(source: Source, detail: Detail = .high) {
        self.source = source
        self.detail = detail
    }

    /// The image of these bytes.
    ///
    /// - Parameters:
    ///   - name: for messages, such as a file's name.
    ///   - limit: in bytes. Default ``defaultLimit``.
    /// - Throws: ``ChappieAttachmentError``.
    public init(
        bytes: [UInt8], name: String? = nil, detail: Detail = .high, limit: Int = ChappieImage.defaultLimit
    ) throws(ChappieAttachmentError) {
        let name = name ?? "the image"
        guard bytes.count <= limit else { throw .tooLarge(name, limit: limit) }
        guard !bytes.isEmpty else { throw .empty(name) }
        guard let format = Format(sniffing: bytes) else { throw .unsupportedImage(name) }
        self.init(source: .url(DataURL.make(bytes, format.mediaType)), detail: detail)
    }

    /// The image of these bytes. See ``init(bytes:name:detail:limit:)``.
    public init(
        data: Data, name: String? = nil, detail: Detail = .high, limit: Int = ChappieImage.defaultLimit
    ) throws(ChappieAttachmentError) {
        try self.init(bytes: Array(data), name: name, detail: detail, limit: limit)
    }

    /// Reads the image from a file; blocks as long as the disk does. See ``init(bytes:name:detail:limit:)``.
    public init(
        path: String, detail: Detail = .high, limit: Int = ChappieImage.defaultLimit
    ) throws(ChappieAttachmentError) {
        try self.init(bytes: DataURL.read(path, limit), name: path, detail: detail, limit: limit)
    }

    /// An image by its address: `file:` is read now, `data:` is checked like bytes, and `https:` or `http:` is fetched by the
    /// backend. See ``init(bytes:name:detail:limit:)``.
    public init(
        url: URL, detail: Detail = .high, limit: Int = ChappieImage.defaultLimit
    ) throws(ChappieAttachmentError) {
        switch url.scheme?.lowercased() {
        case "https", "http": self.init(source: .url(url.absoluteString), detail: detail)
        case "file": try self.init(path: url.path(percentEncoded: false), detail: detail, limit: limit)
        case "data":
            guard let bytes = DataURL.bytes(of: url.absoluteString, limit: limit) else {
                throw .unsupportedURL("a data: address that is not Base64")
            }
            try self.init(bytes: bytes, detail: detail, limit: limit)
        default: throw .unsupportedURL(url.scheme.map { "\($0): address" } ?? "address without a scheme")
        }
    }
}

/// A file for a model that takes files, such as a PDF document.
///
/// ```swift
/// .user("Summarise this.", files: [try ChappieFile(path: "report.pdf")])
/// ```
public struct ChappieFile: Sendable, Hashable {
    /// Where the model gets the file from.
    public enum Source: Sendable, Hashable {
        /// A `data:` address with the content in it.
        case data(String)
        /// An address that the backend fetches.
        case url(String)
        /// An upload that the backend knows.
        case fileID(String)
    }

    /// 20 MiB, the largest file taken unless a call says otherwise.
    public static let defaultLimit = 20 << 20

    /// The name that the model sees.
    public var name: String?
    /// Where the model gets the file from.
    public let source: Source

    /// A file from a place; nothing is checked.
    public init(name: String? = nil, source: Source) {
        self.name = name
        self.source = source
    }

    /// The file of these bytes.
    ///
    /// - Parameters:
    ///   - name: the name that the model sees; its ending tells the kind where the first bytes don't.
    ///   - mediaType: such as `application/pdf`. Default `nil`: recognised.
    ///   - limit: in bytes. Default ``defaultLimit``.
    /// - Throws: ``ChappieAttachmentError``.
    public init(
        bytes: [UInt8], name: String, mediaType: String? = nil, limit: Int = ChappieFile.defaultLimit
    ) throws(ChappieAttachmentError) {
        guard bytes.count <= limit else { throw .tooLarge(name, limit: limit) }
        guard !bytes.isEmpty else { throw .empty(name) }
        let type = mediaType ?? Self.mediaType(of: bytes, named: name)
        self.init(name: name, source: .data(DataURL.make(bytes, type)))
    }

    /// The file of these bytes. See ``init(bytes:name:mediaType:limit:)``.
    public init(
        data: Data, name: String, mediaType: String? = nil, limit: Int = ChappieFile.defaultLimit
    ) throws(ChappieAttachmentError) {
        try self.init(bytes: Array(data), name: name, mediaType: mediaType, limit: limit)
    }

    /// Reads a file; blocks as long as the disk does. The model sees the last part of its path as its name. See
    /// ``init(bytes:name:mediaType:limit:)``.
    public init(
        path: String, mediaType: String? = nil, limit: Int = ChappieFile.defaultLimit
    ) throws(ChappieAttachmentError) {
        let name = path.split(separator: "/").last.map(String.init) ?? path
        try self.init(bytes: DataURL.read(path, limit), name: name, mediaType: mediaType, limit: limit)
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

/// Why an image or a file can't be sent. The strings name it: its path, or what stands for it.
public enum ChappieAttachmentError: ChappieError, Hashable {
    /// There is no file at the path.
    case notFound(String)
    /// The path leads to a folder.
    case isDirectory(String)
    /// The path leads to a pipe, a socket or a device.
    case notAFile(String)
    /// The file can't be read, with the system's reason.
    case unreadable(String, reason: String)
    /// More bytes than the limit.
    case tooLarge(String, limit: Int)
    /// No bytes at all.
    case empty(String)
    /// Not an image of a kind that models take.
    case unsupportedImage(String)
    /// An address of a kind that is not taken.
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
        case .empty(let name): "\(name) is empty."
        case .unsupportedImage(let name): "\(name) is not an image that models take."
        case .unsupportedURL(let what): "This kind of address is not taken: \(what)."
        }
    }

    public var recoverySuggestion: String? {
        switch self {
        case .notFound, .isDirectory, .notAFile, .unreadable: "Check the path."
        case .tooLarge: "Make it smaller, or send a part of it."
        case .empty: "Check what has written it."
        case .unsupportedImage: "Convert it to PNG, JPEG, GIF or WebP."
        case .unsupportedURL: "Use https:, file: or a Base64 data: address."
        }
    }
}

/// Addresses that hold what they name (RFC 2397).
enum DataURL {
    static func make(_ bytes: [UInt8], _ mediaType: String) -> String {
        "data:\(mediaType);base64,\(Data(bytes).base64EncodedString())"
    }

    /// The content of one in Base64; `nil` for others. One that is longer than `limit` bytes gives some bytes more than that.
    static func bytes(of url: String, limit: Int) -> [UInt8]? {
        guard let comma = url.utf8.firstIndex(of: UInt8(ascii: ",")), url[..<comma].lowercased().hasSuffix(";base64")
        else { return nil }
        let digits = url.utf8[url.utf8.index(after: comma)...]
        guard digits.count / 4 <= limit / 3 + 1 else { return [UInt8](repeating: 0, count: limit + 1) }
        return Data(base64Encoded: String(Substring(digits))).map(Array.init)
    }

    static func read(_ path: String, _ limit: Int) throws(ChappieAttachmentError) -> [UInt8] {
        do { return try RegularFile.contents(of: path, limit: limit) } catch {
            switch error {
            case .missing: throw .notFound(path)
            case .directory: throw .isDirectory(path)
            case .special: throw .notAFile(path)
            case .tooLarge: throw .tooLarge(path, limit: limit)
            case .system(let reason): throw .unreadable(path, reason: reason)
            }
        }
    }
}
