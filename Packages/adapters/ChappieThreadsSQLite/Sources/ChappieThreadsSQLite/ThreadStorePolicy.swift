@_spi(ChappieInternals) import ChappieFiles

/// The way in which a file thread store protects its contents.
///
/// On Apple's platforms the system also protects the files, by a class for each case. There `complete` is
/// `completeUnlessOpen`, because otherwise a turn could not store its answer after the screen was locked.
public struct ChappieFileThreadStoreStoragePolicy: Sendable, Hashable, Codable {
    /// The protection, which determines when the threads can be read.
    public enum FileProtection: String, Sendable, Hashable, Codable {
        /// Encrypted. The key is read for each call and not kept, except while a turn is under way. It is then held for
        /// that turn's thread until the turn ends, waits for an approval or is a day old, so that an answer is stored
        /// even if the screen is locked in the meantime. While the key is unavailable, no other thread can be read, and
        /// no turn begins. This is the default.
        case complete
        /// Encrypted. The key is kept in memory after it has been read.
        case completeUntilFirstUserAuthentication
        /// Plain text, in files that only their owner can access.
        case none
    }

    /// The protection, which determines when the threads can be read. Default `.complete`.
    public var fileProtection: FileProtection
    /// Whether backup programs are asked to leave the folder out. Default `true`. The folder follows the store that
    /// most recently opened it.
    public var isExcludedFromBackup: Bool

    /// Creates a policy with the given properties.
    public init(fileProtection: FileProtection = .complete, isExcludedFromBackup: Bool = true) {
        self.fileProtection = fileProtection
        self.isExcludedFromBackup = isExcludedFromBackup
    }

    /// The class of the files on Apple's platforms. In addition, records are encrypted unless the case is `.none`.
    var folderProtection: FolderProtection {
        switch fileProtection {
        case .complete: .completeUnlessOpen
        case .completeUntilFirstUserAuthentication: .completeUntilFirstUserAuthentication
        case .none: .none
        }
    }
}

/// The limits of a file thread store.
public struct ChappieFileThreadStoreLimits: Sendable, Hashable, Codable {
    /// The largest size of the database in bytes, including its index. Space that deleted threads leave free does not
    /// count. Default 512 MiB. An append beyond it throws `full`, and deleting makes room.
    public var maximumBytes: Int

    /// Creates limits with the given properties.
    public init(maximumBytes: Int = 512 << 20) { self.maximumBytes = maximumBytes }
}
