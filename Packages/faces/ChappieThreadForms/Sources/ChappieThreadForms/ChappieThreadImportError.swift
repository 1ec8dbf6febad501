@_spi(ChappieInternals) public import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
import ChappieRuntime

/// An error with the reason why a file cannot be imported, and the place of the damage in the file.
public struct ChappieThreadImportError: ChappieError, Hashable {
    /// The kind of failure. Unknown values are kept.
    public struct Code: RawRepresentable, Sendable, Hashable, Codable {
        public let rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }

        /// The file is missing, too large, or cannot be read.
        public static let unreadable = Code(rawValue: "unreadable")
        /// The file has an unknown form.
        public static let unknownForm = Code(rawValue: "unknownForm")
        /// The file has a known form, but contains a mistake.
        public static let damaged = Code(rawValue: "damaged")
        /// A newer version of this program has written the file.
        public static let tooNew = Code(rawValue: "tooNew")
    }

    /// The kind of failure.
    public let code: Code
    /// The file, or `nil` for bytes that came from elsewhere.
    public let path: String?
    /// The problem, with the line or the table. It ends with a full stop.
    public let reason: String

    /// Creates an error with the given properties.
    public init(_ code: Code, path: String? = nil, reason: String) {
        self.code = code
        self.path = path
        self.reason = reason
    }

    public var errorDescription: String? {
        "\(path ?? "This") can't be \(code == .unreadable ? "read" : "imported"): \(reason)"
    }

    /// Advice for the user.
    public var recoverySuggestion: String? {
        switch code {
        case .unreadable: "Check the path."
        case .tooNew: "Update this program. Nothing was changed."
        default: nil
        }
    }
}

/// A problem in a file, before the file's name is known.
struct ThreadFault: Error, Equatable {
    let code: ChappieThreadImportError.Code
    /// The problem, without a full stop.
    let reason: String

    static let unknown = ThreadFault(
        "it is neither a thread that chappie exported, nor a session of the Codex CLI, nor a log of llm, nor ChatGPT's conversations.json",
        .unknownForm)
    static let name = ThreadFault("the thread has an id that no thread can have")
    static let tooDeep = ThreadFault("one of the records is nested too deep to be kept")
    static let empty = ThreadFault("the thread has no records")
    static func table(_ name: String, _ reason: String) -> ThreadFault {
        ThreadFault("the table \(name) can't be read: \(reason)")
    }

    init(_ reason: String, _ code: ChappieThreadImportError.Code = .damaged) {
        self.code = code
        self.reason = reason.last == "." ? String(reason.dropLast()) : reason
    }

    /// Runs `body`, and turns a failure to read the file into a message for the user.
    static func reading<Output>(
        _ body: () throws(WholeFile.Failure) -> Output
    ) throws(ThreadFault) -> Output {
        do throws(WholeFile.Failure) {
            return try body()
        } catch {
            let reason =
                switch error {
                case .missing: "there is none"
                case .directory: "it is a folder"
                case .special, .open, .changeable: "it is not a regular file"
                case .tooLarge: "it is larger than \(ChappieThreadImport.byteLimit >> 30) GiB"
                case .system(let reason): reason
                }
            throw ThreadFault(reason, .unreadable)
        }
    }

    init(_ error: ChappieThreadStoreError) {
        // The file is damaged, and not the store.
        switch error {
        case .damaged(_, let reason): self.init("The thread in it is damaged: \(reason).")
        case .tooNew: self.init(error.errorDescription ?? "\(error)", .tooNew)
        default: self.init(error.errorDescription ?? "\(error)")
        }
    }
}

extension ChappieThreadImportError {
    init(_ fault: ThreadFault, path: String?) { self.init(fault.code, path: path, reason: fault.reason + ".") }
}
