@_spi(ChappieInternals) import ChappieCore
import ChappieSDK
import FoundationEssentials
import Glibc

/// The user's lines from earlier chats: one JSON string a line, in a file that only the user can read.
struct ChatHistory {
    /// How many entries are kept.
    static let limit = 500
    /// Longer entries, which are pasted and not typed, are not kept. In bytes.
    static let entryLimit = 8 << 10

    /// `nil` keeps nothing.
    let path: String?

    init(path: String?) { self.path = path }

    /// Below `$XDG_STATE_HOME`.
    init(environment: ProgramEnvironment) {
        path = environment.folder("XDG_STATE_HOME", else: "/.local/state").map { $0 + "/chat-history.jsonl" }
    }

    /// The entries, the newest last. A file that others can read, or that makes no sense, counts as empty.
    func entries() -> [String] {
        guard let path, let bytes = try? SmallFile.read(path, isPrivate: true) else { return [] }
        let lines = bytes.split(separator: UInt8(ascii: "\n"))
        let entries = lines.suffix(Self.limit).compactMap { (try? ChappieJSON(parsing: Array($0)))?.string }
        // Adding is one write at the end, so that two chats at once lose nothing; the file is cut here.
        if lines.count > 2 * Self.limit {
            _ = PrivateFile.replace(path, with: entries.flatMap(Self.line), isDurable: false)
        }
        return entries
    }

    /// Adds an entry. One that begins with a blank is not remembered, as in a shell that is told so.
    ///
    /// - Returns: whether it is one to remember.
    func add(_ entry: String) -> Bool {
        guard let first = entry.first, first != " ", entry.utf8.count <= Self.entryLimit else { return false }
        guard let path else { return true }
        if let slash = path.lastIndex(of: "/") {
            try? FileManager.default.createDirectory(
                atPath: String(path[..<slash]), withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o700])
        }
        let descriptor = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { return true }
        defer { close(descriptor) }
        _ = Self.line(entry).withUnsafeBytes { writeAll($0, to: descriptor) }
        return true
    }

    private static func line(_ entry: String) -> [UInt8] { Array((ChappieJSON.string(entry).serialized() + "\n").utf8) }
}
