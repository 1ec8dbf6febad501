public import ChappieCore
import ChappieFiles

extension ChappieImage {
    /// Reads an image from a file on this machine. Blocks until the disk has answered.
    ///
    /// ```swift
    /// let picture = try ChappieImage(contentsOf: URL(filePath: "diagram.png"))
    /// print(try await client.send(.user("What does this show?", images: [picture])))
    /// ```
    /// - Parameters:
    ///   - file: A `file:` URL of a PNG, JPEG, GIF or WebP image.
    ///   - detail: The resolution in which the model sees the image. Default `.high`.
    /// - Throws: ``ChappieAttachmentError``, for example if there is no such file, if it is not an image or if it has
    ///   more than ``defaultLimit`` bytes.
    public init(contentsOf file: URL, detail: Detail = .high) throws(ChappieAttachmentError) {
        try self.init(path: file.localPath(), detail: detail)
    }
}

extension ChappieFile {
    /// Reads a file on this machine. Blocks until the disk has answered. The model sees the last component of the path
    /// as the file's name.
    ///
    /// ```swift
    /// let report = try ChappieFile(contentsOf: URL(filePath: "report.pdf"))
    /// print(try await client.send(.user("Sum this up.", files: [report])))
    /// ```
    /// - Parameters:
    ///   - file: A `file:` URL.
    ///   - mediaType: The media type, such as `application/pdf`. Default: the one that the file's name implies.
    /// - Throws: ``ChappieAttachmentError``, for example if there is no such file or if it has more than
    ///   ``defaultLimit`` bytes.
    public init(contentsOf file: URL, mediaType: String? = nil) throws(ChappieAttachmentError) {
        try self.init(path: file.localPath(), mediaType: mediaType)
    }
}

extension URL {
    fileprivate func localPath() throws(ChappieAttachmentError) -> String {
        guard isFileURL else { throw .unsupportedURL("address that is not a file's") }
        return path(percentEncoded: false)
    }
}
