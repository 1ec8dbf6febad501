import CCurl
import ChappieCore
import FoundationEssentials

/// The system's certificate authorities and those of one more file, as one PEM text: curl takes one bundle only, and one
/// given as bytes replaces its default file. Its default directory of hashed certificates, where there is one, stays in
/// force beside it.
struct TrustAnchors: Sendable, Hashable {
    /// Longer than any bundle in the wild by a factor of ten or more.
    private static let limit = 16 << 20

    let extraFile: String
    let bundle: [UInt8]

    /// Reads the files. Whether OpenSSL can read the certificates in them shows when the first connection is made.
    ///
    /// - Parameter systemFile: the system's bundle; one that can't be read is left out, since the directory may do.
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
            throw invalid("can't be read: it may not be read")
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

    /// The system's bundle, where this build of curl has one.
    static var defaultSystemFile: String? {
        curl_version_info(CURLVERSION_SEVENTH)?.pointee.cainfo.map { String(cString: $0) }
    }

    /// Why a file that a setting names can't be read: it may be a directory, a pipe that waits for its writer, or endless.
    private static func problem(with path: String) -> String? {
        var info = stat()
        guard stat(path, &info) == 0 else { return "there is no such file" }
        guard info.st_mode & mode_t(S_IFMT) == mode_t(S_IFREG) else { return "it is not a file" }
        guard info.st_size <= limit else { return "it is over \(limit) bytes long" }
        return access(path, R_OK) == 0 ? nil : "it may not be read"
    }
}
