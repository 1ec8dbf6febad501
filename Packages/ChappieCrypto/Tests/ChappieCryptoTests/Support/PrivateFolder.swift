import TestFixtures

/// A folder for one test, removed with it.
final class PrivateFolder: Sendable {
    private let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    var path: String { directory.path }

    /// Where a store keeps its files.
    var credentials: String { path + "/credentials" }

    func names(in folder: String? = nil) throws -> [String] {
        try Files.names(in: folder ?? credentials)
    }

    /// A file beside the credentials.
    func write(_ bytes: [UInt8], to name: String, mode: Int = 0o600) throws -> String {
        let file = path + "/" + name
        try Files.write(bytes, to: file)
        try Files.set(mode, of: file)
        return file
    }
}
