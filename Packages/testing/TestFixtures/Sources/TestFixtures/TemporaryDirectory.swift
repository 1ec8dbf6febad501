import FoundationEssentials

/// A directory for one test, which is removed with this value. Only its owner can read it.
public final class TemporaryDirectory: Sendable {
    /// The path. It is short, because the path of a socket has at most 107 bytes (unix(7)).
    public let path: String

    /// Creates a directory in the temporary directory of the process.
    public convenience init() throws { try self.init(in: FileManager.default.temporaryDirectory.path) }

    /// Creates a directory in `parent`.
    public init(in parent: String) throws {
        path = "\(parent)/chappie-test-\(UUID().uuidString.prefix(8))"
        try FileManager.default.createDirectory(
            atPath: path, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    /// Returns the path of the file `name`, which need not exist.
    public func path(_ name: String) -> String { "\(path)/\(name)" }

    /// Writes the file `name`, and returns its path.
    @discardableResult
    public func write(_ text: String, to name: String) throws -> String {
        try Data(text.utf8).write(to: URL(filePath: path(name)))
        return path(name)
    }

    /// Returns the text of the file `name`.
    public func read(_ name: String) throws -> String { try String(contentsOfFile: path(name), encoding: .utf8) }
}

/// An error for something on the machine that a test needs and that is missing or doesn't work. A sentence specifies
/// it, and what helps.
public struct FixtureFailure: Error, CustomStringConvertible {
    public let description: String

    /// Creates a failure with this sentence.
    public init(_ description: String) { self.description = description }
}
