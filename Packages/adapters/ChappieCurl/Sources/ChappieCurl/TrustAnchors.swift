import CCurl
import ChappieCore
import FoundationEssentials

/// The system's certificate authorities and the authorities in one more file, as one PEM text. curl takes only one
/// bundle, and a bundle given as bytes replaces its default file. Its default directory of hashed certificates, if
/// there is one, stays in force beside it.
struct TrustAnchors: Sendable, Hashable {
    /// Ten times longer than any bundle in use.
    private static let limit = 16 << 20

    let extraFile: String
    let bundle: [UInt8]

    /// Reads the files. Whether OpenSSL can read their certificates shows when the first connection is made.
    ///
    /// - Parameter systemFile: The system's bundle. It is left out if it can't be read, since the directory may be
    ///   enough.
    /// - Throws: ``ChappieTransportError`` with code `.invalidCAFile`, naming the file.
    init(
        extraFile: String, systemFile: String? = TrustAnchors.defaultSystemFile
    ) throws(ChappieTransportError) {
        func invalid(_ problem: String) -> ChappieTransportError {
            ChappieTransportError(
                .invalidCAFile, stage: .configuration, host: "", reason: "the extra CA file \(extraFile) \(problem)")
        }
        if let problem = Self.problem(with: extraFile) { throw invalid("can't be read: \(problem)") }
        guard let extra = FileManager.default.contents(atPath: extraFile) else {
            throw invalid("can't be read: access is denied")
        }
        let text = String(decoding: extra, as: UTF8.self)
        // The labels that OpenSSL reads a trust anchor from.
        let labels = ["CERTIFICATE", "TRUSTED CERTIFICATE", "X509 CERTIFICATE"]
        guard labels.contains(where: { text.contains("-----BEGIN \($0)-----") }) else {
            throw invalid("holds no certificate in PEM form")
        }
        let system = systemFile.flatMap { FileManager.default.contents(atPath: $0) } ?? Data()
        self.extraFile = extraFile
        bundle = system + [UInt8(ascii: "\n")] + extra
    }

    /// The system's bundle, if this build of curl has one.
    static var defaultSystemFile: String? {
        curl_version_info(CURLVERSION_SEVENTH)?.pointee.cainfo.map { String(cString: $0) }
    }

    /// The reason why a file that a setting names can't be read. It may be a directory, a pipe that waits for its
    /// writer, or endless.
    private static func problem(with path: String) -> String? {
        var info = stat()
        guard stat(path, &info) == 0 else { return "there is no such file" }
        guard info.st_mode & mode_t(S_IFMT) == mode_t(S_IFREG) else { return "it is not a file" }
        guard info.st_size <= limit else { return "it is over \(limit) bytes long" }
        return access(path, R_OK) == 0 ? nil : "access is denied"
    }
}
