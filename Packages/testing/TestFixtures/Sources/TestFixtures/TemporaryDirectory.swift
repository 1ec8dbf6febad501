import FoundationEssentials

/// A directory for one test, which goes away with this value. Only its owner can read it.
public final class TemporaryDirectory: Sendable {
    /// Short, since the path of a socket has 107 bytes at most (unix(7)).
    public let path: String

    /// Makes it in the temporary directory of the process.
    public convenience init() throws { try self.init(in: FileManager.default.temporaryDirectory.path) }

    /// Makes it in `parent`.
    public init(in parent: String) throws {
        path = "\(parent)/chappie-test-\(UUID().uuidString.prefix(8))"
        try FileManager.default.createDirectory(
            atPath: path, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    /// Returns the path of the file `name`, which need not exist.
    public func path(_ name: String) -> String { "\(path)/\(name)" }

    /// Writes the file `name`; returns its path.
    @discardableResult
    public func write(_ text: String, to name: String) throws -> String {
        try Data(text.utf8).write(to: URL(filePath: path(name)))
        return path(name)
    }

    /// Returns the text of the file `name`.
    public func read(_ name: String) throws -> String { try String(contentsOfFile: path(name), encoding: .utf8) }
}

/// Something that a test needs on the machine is missing or doesn't work; a sentence says what, and what helps.
public struct FixtureFailure: Error, CustomStringConvertible {
    public let description: String

    /// Creates a failure in these words.
    public init(_ description: String) { self.description = description }
}
