import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
import ChappieSDK
import FoundationEssentials
import Glibc

/// A JSON file of this user that one command at a time changes. Nothing in it is secret.
struct UserFile {
    let path: String
    /// In bytes.
    private static let limit = 1 << 20

    /// Reads the file. A file that every user can change is refused, and a pipe, which might never end.
    ///
    /// - Returns: `nil` if the file is missing.
    /// - Throws: ``CommandLineError``.
    func contents() throws -> [UInt8]? {
        do throws(WholeFile.Failure) {
            return try WholeFile.contents(of: path, limit: Self.limit, kind: .guarded)
        } catch {
            var facts = stat()
            // A link that leads nowhere is a mistake, and no missing file.
            if error == .missing, lstat(path, &facts) != 0 { return nil }
            throw CommandLineError.usage(
                "\(path) can't be read: \(error.words).",
                suggestion: error == .changeable
                    ? "If you trust its contents: chmod o-w \(shellQuoted(path))"
                    : PathOwner.remedy(for: path) ?? "Fix it, or move it away.")
        }
    }

    /// Whether the file is a link that leads nowhere.
    var isDanglingLink: Bool {
        var facts = stat()
        return lstat(path, &facts) == 0 && facts.st_mode & S_IFMT == S_IFLNK && stat(path, &facts) != 0
            && errno == ENOENT
    }

    /// Does `work` while no other command changes the file.
    ///
    /// - Parameter limit: How long it waits for other commands. The work is then done anyway: another process may
    ///   be stopped.
    /// - Throws: The errors of `work`; `CancellationError`.
    func locked(
        _ environment: ProgramEnvironment, within limit: Duration = .seconds(5), _ work: () throws -> Void
    ) async throws {
        // The change is made without the lock if there can be none.
        let slot = CredentialSlot(service: "settings", account: path)
        let hold = try? await environment.lock.acquire(slot, within: limit)
        try Task.checkCancellation()
        try work()
        withExtendedLifetime(hold) {}
    }

    /// Writes a line for each member, since users edit such files.
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
        // A link leads to the place in which the user keeps the file.
        let target = realpath(path, nil)
        defer { free(target) }
        let place = target.map { String(cString: $0) } ?? path
        guard PrivateFile.replace(place, with: text) else {
            let problem = PathOwner.problem(writing: place)
            throw CommandLineError.usage("\(problem.reason).", suggestion: problem.remedy)
        }
    }

    /// Reads the text as a JSON object. A text of nothing but blanks is an empty object.
    ///
    /// - Returns: `nil` for JSON of another kind.
    /// - Throws: ``ChappieJSONError``.
    static func object(in bytes: [UInt8]) throws -> ChappieJSONObject? {
        isBlank(bytes) ? ChappieJSONObject() : try ChappieJSON(parsing: unmarked(bytes)).object
    }

    /// Whether the text is empty.
    static func isBlank(_ bytes: [UInt8]) -> Bool { unmarked(bytes).allSatisfy { " \t\r\n".utf8.contains($0) } }

    /// Returns the text without a byte order mark.
    static func unmarked(_ bytes: [UInt8]) -> [UInt8] { isMarked(bytes) ? Array(bytes.dropFirst(mark.count)) : bytes }

    /// Whether the text begins with a byte order mark.
    static func isMarked(_ bytes: [UInt8]) -> Bool { bytes.starts(with: mark) }

    private static let mark: [UInt8] = [0xEF, 0xBB, 0xBF]
}
