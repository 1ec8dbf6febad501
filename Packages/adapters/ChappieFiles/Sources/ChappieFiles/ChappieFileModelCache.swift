@_spi(ChappieInternals) public import ChappieCore
import Dispatch

/// Model lists in files for their owner alone: `models-NAME.json`, each replaced in one step.
public struct ChappieFileModelCache: ChappieModelCache {
    private static let limit = 17 << 20
    private let directory: String

    /// - Parameter directory: absolute; if it is missing, it is made when the first list is saved.
    public init(directory: String) { self.directory = directory }

    /// Files in `$XDG_CACHE_HOME/chappie`, or in `~/.cache/chappie`; `nil` without a home directory. On Apple's
    /// platforms they are in the program's own folder for caches.
    ///
    /// - Parameter variable: looks up a variable of the environment.
    public init?(environment variable: (String) -> String?) {
        guard let directory = (try? UserFolders.ofPlatform(variable))?.cache else { return nil }
        self.init(directory: directory)
    }

    /// Reads the file, of at most 17 MiB.
    public func load(_ name: String) async -> [UInt8]? {
        let path = path(of: name)
        return await DispatchQueue.global().run { try? WholeFile.contents(of: path, limit: Self.limit) }
    }

    /// Writes the file.
    public func save(_ document: [UInt8], _ name: String) async {
        let path = path(of: name)
        await DispatchQueue.global().run { _ = PrivateFile.replace(path, with: document, isDurable: false) }
    }

    private func path(of name: String) -> String { "\(directory)/models-\(name).json" }
}
