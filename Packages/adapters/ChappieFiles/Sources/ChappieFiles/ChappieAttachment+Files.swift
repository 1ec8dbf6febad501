@_spi(ChappieInternals) public import ChappieCore

extension ChappieImage {
    /// Reads the image from a file. Blocks until the disk has answered. See ``init(bytes:name:detail:limit:)``.
    public init(
        path: String, detail: Detail = .high, limit: Int = ChappieImage.defaultLimit
    ) throws(ChappieAttachmentError) {
        // An image that is slightly too large is reported with its size.
        try self.init(bytes: read(path, max(limit, Self.readLimit)), name: path, detail: detail, limit: limit)
    }

    private static let readLimit = 64 << 20

    /// Creates an image from its address. A `file:` URL is read immediately, a `data:` URL is checked like bytes, and
    /// the backend fetches an `https:` or `http:` URL. See ``init(bytes:name:detail:limit:)``.
    public init(
        url: URL, detail: Detail = .high, limit: Int = ChappieImage.defaultLimit
    ) throws(ChappieAttachmentError) {
        switch url.scheme?.lowercased() {
        case "https", "http": self.init(source: .url(url.absoluteString), detail: detail)
        case "file": try self.init(path: url.path(percentEncoded: false), detail: detail, limit: limit)
        case "data":
            if let size = DataURL.byteCount(of: url.absoluteString), size > limit {
                throw .imageTooLarge("the image", bytes: size, limit: limit)
            }
            guard let bytes = DataURL.bytes(of: url.absoluteString, limit: limit) else {
                throw .unsupportedURL("a data: address that is not Base64")
            }
            try self.init(bytes: bytes, detail: detail, limit: limit)
        default: throw .unsupportedURL(url.scheme.map { "\($0): address" } ?? "address without a scheme")
        }
    }
}

extension ChappieFile {
    /// Reads a file. Blocks until the disk has answered. The model sees the last component of the path as the file's
    /// name. See ``init(bytes:name:mediaType:limit:)``.
    public init(
        path: String, mediaType: String? = nil, limit: Int = ChappieFile.defaultLimit
    ) throws(ChappieAttachmentError) {
        let name = path.split(separator: "/").last.map(String.init) ?? path
        try self.init(bytes: read(path, limit), name: name, mediaType: mediaType, limit: limit)
    }
}

/// Reads an attachment. Reports a failure as an error about attachments.
private func read(_ path: String, _ limit: Int) throws(ChappieAttachmentError) -> [UInt8] {
    do {
        return try WholeFile.contents(of: path, limit: limit)
    } catch {
        switch error {
        case .missing: throw .notFound(path)
        case .directory: throw .isDirectory(path)
        case .special, .open, .changeable: throw .notAFile(path)
        case .tooLarge: throw .tooLarge(path, limit: limit)
        case .system(let reason): throw .unreadable(path, reason: reason)
        }
    }
}
