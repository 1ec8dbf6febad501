import CCurl
@_spi(ChappieInternals) import ChappieCore
import FoundationEssentials

/// The certificate authorities of a network, as one PEM text. curl accepts only one bundle, and a bundle given as bytes
/// replaces its default file.
///
/// `SSL_CERT_FILE` and `SSL_CERT_DIR` replace the system's file and its directory, as in OpenSSL and in the Codex CLI.
/// In a directory every file is read, whatever its name. The extra file is added to all of these.
struct TrustAnchors: Sendable, Hashable {
    /// The variables that replace the system's authorities.
    static let variables = ["SSL_CERT_FILE", "SSL_CERT_DIR"]
    /// The largest file that is read, in bytes. It is ten times longer than any bundle in use.
    private static let limit = 16 << 20

    let bundle: [UInt8]
    /// Whether the directory of certificates that curl was built with is used in addition to the bundle.
    let usesSystemDirectory: Bool
    /// The name of the extra file's setting, with the file's path.
    private(set) var extra: String?
    /// The file or the directories that replace the system's, in the same form.
    private(set) var replacement: String?
    /// Whether the system's own file should be used but can't be read.
    let isSystemMissing: Bool
    /// A sentence about each certificate that is ignored.
    private(set) var notes: [String] = []

    /// Reads the files. Returns `nil` if nothing is set, so that the system's authorities are enough.
    ///
    /// - Parameters:
    ///   - name: The name of the setting that provides `extraFile`, for messages.
    ///   - environment: The environment. Only ``variables`` are read from it. An empty variable counts as unset.
    ///   - systemFile: The system's bundle. It is omitted if it can't be read, since the directory may be enough.
    /// - Throws: ``ChappieTransportError`` with code `.invalidCAFile`, naming the setting and the file.
    init?(
        extraFile: String?, called name: String, environment: [String: String],
        systemFile: String? = TrustAnchors.defaultSystemFile
    ) throws(ChappieTransportError) {
        let values = environment.mapValues(\.trimmed).filter { !$1.isEmpty }
        // Many containers set both to the system's own, which curl reads faster by itself.
        let file = values["SSL_CERT_FILE"].flatMap { $0 == systemFile ? nil : $0 }
        let directories = values["SSL_CERT_DIR"].flatMap { $0 == Self.defaultSystemDirectory ? nil : $0 }
        guard extraFile != nil || file != nil || directories != nil else { return nil }
        var certificates: [PEMCertificate] = []
        var system: Data?
        if let file {
            replacement = "SSL_CERT_FILE (\(file))"
            certificates += try Self.certificates(in: file, called: "SSL_CERT_FILE", &notes)
        } else {
            system = systemFile.flatMap { FileManager.default.contents(atPath: $0) }
        }
        if let directories {
            let found = Self.certificates(inDirectories: directories)
            let label = "SSL_CERT_DIR (\(directories))"
            if found.isEmpty {
                guard file != nil else { throw Self.invalid("SSL_CERT_DIR", label, "holds no certificate") }
                notes.append("\(label) holds no certificate.")
            }
            replacement = replacement ?? label
            certificates += found
        }
        if let extraFile {
            extra = "\(name) (\(extraFile))"
            certificates += try Self.certificates(in: extraFile, called: name, &notes)
        }
        usesSystemDirectory = directories == nil
        isSystemMissing = file == nil && directories == nil && system == nil
        bundle = (system ?? Data()) + certificates.flatMap { Array("\n\($0.text)".utf8) }
    }

    /// The system's bundle, if this build of curl has one.
    static var defaultSystemFile: String? {
        curl_version_info(CURLVERSION_SEVENTH)?.pointee.cainfo.map { String(cString: $0) }
    }

    private static var defaultSystemDirectory: String? {
        curl_version_info(CURLVERSION_SEVENTH)?.pointee.capath.map { String(cString: $0) }
    }

    // MARK: Files

    /// Reads the certificates of a file that a setting names. Adds a note if some of them can't be read.
    private static func certificates(
        in file: String, called name: String, _ notes: inout [String]
    ) throws(ChappieTransportError) -> [PEMCertificate] {
        let label = "\(name) (\(file))"
        if let problem = problem(with: file) { throw invalid(name, label, "can't be read: \(problem)") }
        guard let content = FileManager.default.contents(atPath: file) else {
            throw invalid(name, label, "can't be read: access is denied")
        }
        let blocks = PEMCertificate.blocks(in: content)
        guard !blocks.isEmpty else { throw invalid(name, label, "holds no certificate in PEM form") }
        let usable = blocks.compactMap(\.self)
        guard !usable.isEmpty else { throw invalid(name, label, "holds no certificate that can be read") }
        let damaged = blocks.enumerated().filter { $1 == nil }.map { String($0.offset + 1) }
        if let first = damaged.first {
            let which = damaged.count == 1 ? "Certificate \(first)" : "\(damaged.count) certificates"
            notes.append("\(which) of \(blocks.count) in \(label) can't be read, and the others are used.")
        }
        return usable
    }

    private static func certificates(inDirectories directories: String) -> [PEMCertificate] {
        var known: Set<String> = []
        var found: [PEMCertificate] = []
        for directory in directories.split(separator: ":").map(String.init) {
            for file in (try? FileManager.default.contentsOfDirectory(atPath: directory))?.sorted() ?? [] {
                let path = "\(directory)/\(file)"
                guard problem(with: path) == nil, let content = FileManager.default.contents(atPath: path) else {
                    continue
                }
                // Each certificate has two names there: its own, and its digest.
                for certificate in PEMCertificate.blocks(in: content).compactMap(\.self)
                where known.insert(certificate.text).inserted {
                    found.append(certificate)
                }
            }
        }
        return found
    }

    private static func invalid(_ name: String, _ label: String, _ problem: String) -> ChappieTransportError {
        ChappieTransportError(
            .invalidCAFile, stage: .configuration, host: "", reason: "\(label) \(problem)",
            advice: "Point \(name) at certificate authorities in PEM form, or unset it.")
    }

    /// Returns the reason why a file that a setting names can't be read, or `nil` if it can. The file may be a
    /// directory, a pipe that waits for its writer, or endless.
    private static func problem(with path: String) -> String? {
        var info = stat()
        guard stat(path, &info) == 0 else { return "there is no such file" }
        guard info.st_mode & mode_t(S_IFMT) == mode_t(S_IFREG) else { return "it is not a file" }
        guard info.st_size <= limit else { return "it is over \(limit) bytes long" }
        return access(path, R_OK) == 0 ? nil : "access is denied"
    }
}

/// A certificate that can be an authority, in the form of RFC 7468.
private struct PEMCertificate {
    let text: String

    /// The labels of the blocks from which OpenSSL reads a trust anchor.
    private static let labels = ["CERTIFICATE", "TRUSTED CERTIFICATE", "X509 CERTIFICATE"]

    /// Returns the certificates of a file, with `nil` for each one that can't be read.
    static func blocks(in content: Data) -> [PEMCertificate?] {
        text(of: content).split(separator: "-----BEGIN ").compactMap { block -> PEMCertificate?? in
            guard let label = labels.first(where: { block.hasPrefix("\($0)-----") }) else { return nil }
            let rest = block.dropFirst(label.count + 5)
            guard let end = rest.firstRange(of: "-----END \(label)-----"),
                let bytes = Data(
                    base64Encoded: String(rest[..<end.lowerBound]), options: .ignoreUnknownCharacters),
                bytes.withUnsafeBytes({ ccurl_is_certificate($0.baseAddress, $0.count) })
            else { return .some(nil) }
            let lines = bytes.base64EncodedString(options: [.lineLength64Characters, .endLineWithLineFeed])
            return PEMCertificate(text: "-----BEGIN \(label)-----\n\(lines)\n-----END \(label)-----\n")
        }
    }

    /// Returns the content of a file as text. Editors write a byte order mark before the first line, and some of them
    /// use two bytes for each character.
    private static func text(of content: Data) -> String {
        let isBig = content.starts(with: [0xFE, 0xFF])
        guard isBig || content.starts(with: [0xFF, 0xFE]) else { return String(decoding: content, as: UTF8.self) }
        let units = stride(from: content.startIndex, to: content.endIndex - 1, by: 2).map { index in
            let (first, second) = (UInt16(content[index]), UInt16(content[index + 1]))
            return isBig ? first << 8 | second : second << 8 | first
        }
        return String(decoding: units, as: UTF16.self)
    }
}
