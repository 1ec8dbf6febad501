@_spi(ChappieInternals) public import ChappieCore
import Dispatch

/// A cache that keeps model lists in files that only their owner can access: `models-NAME.json`, each replaced in one
/// step.
public struct ChappieFileModelCache: ChappieModelCache {
    private static let limit = 17 << 20
    private let directory: String

    /// Creates a cache.
    ///
    /// - Parameter directory: An absolute path. If the folder is missing, it is made when the first list is saved.
    public init(directory: String) { self.directory = directory }

    /// Creates a cache in `$XDG_CACHE_HOME/chappie`, or in `~/.cache/chappie`. Returns `nil` without a home directory.
    /// On Apple's platforms the files are in the program's own folder for caches.
    ///
    /// - Parameter variable: A closure that looks up an environment variable.
    public init?(environment variable: (String) -> String?) {
        guard let directory = UserFolders.ofPlatform(variable).cache else { return nil }
        self.init(directory: directory)
    }

    /// Reads the file, which may have at most 17 MiB.
    public func load(_ name: String) async -> [UInt8]? {
        let path = path(of: name)
        return await DispatchQueue.global().run { try? WholeFile.contents(of: path, limit: Self.limit) }
    }

    /// Writes the file.
    public func save(_ document: [UInt8], _ name: String) async {
        let path = path(of: name)
        await DispatchQueue.global().run { try? PrivateFile.replace(path, with: document, isDurable: false) }
    }

    private func path(of name: String) -> String { "\(directory)/models-\(name).json" }
}
