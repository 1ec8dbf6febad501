import CCurl
import ChappieCore
import FoundationEssentials

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Which certificate authorities a connection accepts.
enum TrustAnchors: Sendable, Hashable {
    /// The system's, as curl was built to find them.
    case system
    /// The system's and those of one more file, as one PEM text.
    case systemAnd(extraFile: String, combined: [UInt8])

    /// Longer than any bundle in the wild by a factor of ten or more.
    private static let limit = 16 * 1024 * 1024

    /// Reads `extraFile` and puts it beside the system's bundle.
    ///
    /// curl takes one bundle only, and one given as bytes replaces its default file; so the bytes hold both. Curl's
    /// default directory of hashed certificates, where there is one, stays in force beside it.
    ///
    /// - Parameter systemFile: the system's bundle; one that can't be read is left out, since the directory may do.
    /// - Throws: ``ChappieTransportError`` with code `.invalidCAFile`, naming the file.
    init(
        extraFile: String?, systemFile: String? = TrustAnchors.defaultSystemFile
    ) throws(ChappieTransportError) {
        guard let extraFile else {
            self = .system
            return
        }
        let extra: [UInt8]
        do throws(BoundedFile.Problem) {
            extra = try BoundedFile.read(extraFile, limit: Self.limit)
        } catch {
            throw Self.invalid(extraFile, "can't be read: \(error.reason)")
        }
        switch PEMText.countCertificates(in: extra) {
        case nil: throw Self.invalid(extraFile, "holds a damaged certificate")
        case 0: throw Self.invalid(extraFile, "holds no certificate in PEM form")
        default: break
        }
        let system = systemFile.flatMap { try? BoundedFile.read($0, limit: Self.limit) } ?? []
        self = .systemAnd(extraFile: extraFile, combined: system + [UInt8(ascii: "\n")] + extra)
    }

    /// The one more file, where there is one.
    var extraFile: String? {
        switch self {
        case .system: nil
        case .systemAnd(let extraFile, _): extraFile
        }
    }

    /// The system's bundle, where this build of curl has one.
    static var defaultSystemFile: String? { ccurl_default_ca_file().map { String(cString: $0) } }

    private static func invalid(_ file: String, _ problem: String) -> ChappieTransportError {
        ChappieTransportError(
            .invalidCAFile, stage: .configuration, host: "", reason: "the extra CA file \(file) \(problem)")
    }
}

/// Certificates in their textual encoding (RFC 7468, section 5).
enum PEMText {
    /// How many certificates `bytes` holds; `nil` when one of them is not one: no end line, no base64, no DER sequence
    /// of the right length.
    ///
    /// Text outside the markers is ignored, as RFC 7468 (section 2) asks.
    static func countCertificates(in bytes: [UInt8]) -> Int? {
        var count = 0
        var body: [UInt8]?
        for line in bytes.split(whereSeparator: { $0 == 0x0A || $0 == 0x0D }) {
            let line = trimmed(line)
            if isMarker(line, "BEGIN") {
                guard body == nil else { return nil }
                body = []
            } else if isMarker(line, "END") {
                guard let base64 = body, isDER(base64) else { return nil }
                body = nil
                count += 1
            } else {
                body?.append(contentsOf: line)
            }
        }
        return body == nil ? count : nil
    }

    /// The labels that OpenSSL reads a trust anchor from.
    private static func isMarker(_ line: ArraySlice<UInt8>, _ word: String) -> Bool {
        ["CERTIFICATE", "TRUSTED CERTIFICATE", "X509 CERTIFICATE"].contains { label in
            line.elementsEqual("-----\(word) \(label)-----".utf8)
        }
    }

    private static func trimmed(_ line: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        var line = line
        while let last = line.last, last == 0x20 || last == 0x09 { line.removeLast() }
        return line
    }

    /// Whether it decodes to bytes that begin with a SEQUENCE as long as it says, and no longer than they are. (A
    /// "trusted certificate" goes on after it.)
    private static func isDER(_ base64: [UInt8]) -> Bool {
        guard let der = Data(base64Encoded: Data(base64)), der.count > 4, der[0] == 0x30, der[1] & 0x80 != 0 else {
            return false
        }
        let lengthSize = Int(der[1] & 0x7F)
        guard (1...3).contains(lengthSize), der.count > 2 + lengthSize else { return false }
        let length = der[2..<(2 + lengthSize)].reduce(0) { $0 << 8 | Int($1) }
        return 2 + lengthSize + length <= der.count
    }
}

/// Reads a file that a setting names: it may be a directory, a pipe, or endless.
enum BoundedFile {
    /// Why it could not be read, in words.
    struct Problem: Error {
        let reason: String
    }

    static func read(_ path: String, limit: Int) throws(Problem) -> [UInt8] {
        // Without O_NONBLOCK, opening a named pipe waits for its writer.
        let descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)
        guard descriptor >= 0 else { throw Problem(reason: lastError()) }
        defer { close(descriptor) }
        var info = stat()
        guard fstat(descriptor, &info) == 0 else { throw Problem(reason: lastError()) }
        guard info.st_mode & S_IFMT == S_IFREG else { throw Problem(reason: "it is not a file") }
        guard info.st_size <= limit else { throw Problem(reason: "it is over \(limit) bytes long") }

        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 65_536)
        while bytes.count <= limit {
            let count = chunk.withUnsafeMutableBytes { Self.read(descriptor, into: $0) }
            if count < 0 {
                if errno == EINTR { continue }
                throw Problem(reason: lastError())
            }
            if count == 0 { return bytes }
            bytes.append(contentsOf: chunk[..<count])
        }
        throw Problem(reason: "it is over \(limit) bytes long")
    }

    private static func read(_ descriptor: CInt, into buffer: UnsafeMutableRawBufferPointer) -> Int {
        #if canImport(Glibc)
            Glibc.read(descriptor, buffer.baseAddress, buffer.count)
        #elseif canImport(Musl)
            Musl.read(descriptor, buffer.baseAddress, buffer.count)
        #else
            Darwin.read(descriptor, buffer.baseAddress, buffer.count)
        #endif
    }

    private static func lastError() -> String {
        switch errno {
        case ENOENT: "there is no such file"
        case EACCES: "it may not be read"
        case EISDIR: "it is a directory"
        case let code: String(cString: strerror(code)).lowercased()
        }
    }
}
