import CCurl
public import ChappieCore

/// Which certificate authorities a connection accepts.
public enum TrustAnchors: Sendable, Hashable {
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
    public init(
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
    public var extraFile: String? {
        switch self {
        case .system: nil
        case .systemAnd(let extraFile, _): extraFile
        }
    }

    /// The system's bundle, where this build of curl has one.
    public static var defaultSystemFile: String? { ccurl_default_ca_file().map { String(cString: $0) } }

    private static func invalid(_ file: String, _ problem: String) -> ChappieTransportError {
        ChappieTransportError(
            .invalidCAFile, stage: .configuration, host: "", reason: "the extra CA file \(file) \(problem)")
    }
}
