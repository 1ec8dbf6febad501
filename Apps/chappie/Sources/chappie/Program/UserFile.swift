import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
import ChappieSDK
import FoundationEssentials
import Glibc

/// A JSON file of this user that one command at a time changes. It does not contain a secret.
struct UserFile {
    let path: String

    /// Reads the file. Refuses a file that every user can change, and a pipe, which might never end.
    ///
    /// - Returns: the bytes, or `nil` if the file is missing.
    /// - Throws: ``CommandLineError``.
    func contents() throws -> [UInt8]? {
        var facts = stat()
        // A link that leads nowhere is a mistake and not a missing file.
        let isMissing = lstat(path, &facts) != 0 && (errno == ENOENT || errno == ENOTDIR)
        return isMissing ? nil : try WholeFile.read(path, .guarded)
    }

    /// Whether the file is a link that leads nowhere.
    var isDanglingLink: Bool {
        var facts = stat()
        return lstat(path, &facts) == 0 && facts.st_mode & S_IFMT == S_IFLNK && stat(path, &facts) != 0
            && errno == ENOENT
    }

    /// Performs `work` while no other command changes the file.
    ///
    /// - Parameter limit: the maximum time to wait for other commands. The work is then performed anyway, because
    ///   another process may be stopped.
    /// - Throws: the errors of `work`, or `CancellationError`.
    func locked(
        _ environment: ProgramEnvironment, within limit: Duration = .seconds(5), _ work: () throws -> Void
    ) async throws {
        // If the lock is not available, the change is made without it.
        let slot = CredentialSlot(service: "settings", account: path)
        let hold = try? await environment.lock.acquire(slot, within: limit)
        try Task.checkCancellation()
        try work()
        withExtendedLifetime(hold) {}
    }

    /// Writes a line for each member because users edit such files.
    ///
    /// - Throws: ``CommandLineError``.
    func write(_ object: ChappieJSONObject) throws {
        let lines = object.members.map { "  \(ChappieJSON.string($0.name).serialized()): \($0.value.serialized())" }
        try write(Array("{\n\(lines.joined(separator: ",\n"))\n}\n".utf8))
    }

    /// Replaces the file.
    ///
    /// - Throws: ``CommandLineError``.
    func write(_ text: [UInt8]) throws {
        // A link leads to the place where the user keeps the file.
        let target = realpath(path, nil)
        defer { free(target) }
        let place = target.map { String(cString: $0) } ?? path
        do {
            try PrivateFile.replace(place, with: text)
        } catch {
            let problem = PathOwner.problem(writing: place, error)
            throw CommandLineError.usage("\(problem.reason).", suggestion: problem.remedy)
        }
    }

    /// Parses the text as a JSON object. A text of blanks is an empty object.
    ///
    /// - Returns: the object, or `nil` for JSON of another kind.
    /// - Throws: ``ChappieJSONError``.
    static func object(in bytes: [UInt8]) throws -> ChappieJSONObject? {
        isBlank(bytes) ? ChappieJSONObject() : try ChappieJSON(parsing: unmarked(bytes)).object
    }

    /// Returns whether the text is empty.
    static func isBlank(_ bytes: [UInt8]) -> Bool { unmarked(bytes).allSatisfy { " \t\r\n".utf8.contains($0) } }

    /// Returns the text without a byte order mark.
    static func unmarked(_ bytes: [UInt8]) -> [UInt8] { isMarked(bytes) ? Array(bytes.dropFirst(mark.count)) : bytes }

    /// Returns whether the text begins with a byte order mark.
    static func isMarked(_ bytes: [UInt8]) -> Bool { bytes.starts(with: mark) }

    private static let mark: [UInt8] = [0xEF, 0xBB, 0xBF]
}

extension WholeFile {
    /// Reads a file that the user named, of at most ``limit`` bytes.
    ///
    /// - Throws: ``CommandLineError``, which names the file and the problem.
    static func read(_ path: String, _ kind: Kind = .any) throws -> [UInt8] {
        do {
            return try contents(of: path, kind: kind)
        } catch {
            let suggestion =
                switch error {
                case .open: "If you trust its contents: chmod 600 \(shellQuoted(path))"
                case .changeable: "If you trust its contents: chmod o-w \(shellQuoted(path))"
                default:
                    PathOwner.remedy(for: path)
                        ?? (kind == .guarded ? "Fix it, or move it away." : "Check the path.")
                }
            throw CommandLineError.usage("\(path) can't be read: \(error.words).", suggestion: suggestion)
        }
    }

    static func exists(_ path: String) -> Bool { access(path, F_OK) == 0 }
}
