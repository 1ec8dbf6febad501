@_spi(ChappieInternals) import ChappieFiles

/// How a file thread store protects what it stores.
///
/// On Apple's platforms the system protects the files as well, by the class in each case. `complete` is
/// `completeUnlessOpen` there: otherwise a turn could not keep its answer once the screen was locked.
public struct ChappieFileThreadStoreStoragePolicy: Sendable, Hashable, Codable {
    /// When the threads can be read.
    public enum FileProtection: String, Sendable, Hashable, Codable {
        /// Encrypted; the key is read for each call and not kept, except while a turn is under way: then it is held for
        /// that turn's thread, until the turn ends, waits for an approval or is a day old, so that an answer is kept
        /// although the screen was locked meanwhile. While the key can't be had, no other thread can be read, and no turn
        /// begins. The default.
        case complete
        /// Encrypted; the key is kept in memory once it has been read.
        case completeUntilFirstUserAuthentication
        /// Plain text, in files that are for their owner alone.
        case none
    }

    /// When the threads can be read. Default `.complete`.
    public var fileProtection: FileProtection
    /// Whether backup programs are asked to leave the folder out. Default `true`. The folder follows the store that opened
    /// it last.
    public var isExcludedFromBackup: Bool

    /// A policy with the given properties.
    public init(fileProtection: FileProtection = .complete, isExcludedFromBackup: Bool = true) {
        self.fileProtection = fileProtection
        self.isExcludedFromBackup = isExcludedFromBackup
    }

    /// The class of the files on Apple's platforms. Records are encrypted besides, unless the case is `.none`.
    var folderProtection: FolderProtection {
        switch fileProtection {
        case .complete: .completeUnlessOpen
        case .completeUntilFirstUserAuthentication: .completeUntilFirstUserAuthentication
        case .none: .none
        }
    }
}

/// How much a file thread store may hold.
public struct ChappieFileThreadStoreLimits: Sendable, Hashable, Codable {
    /// The most bytes that the database may take, its index included; what deleted threads leave free does not count.
    /// Default 512 MiB. An append beyond it is `full`, and deleting makes room.
    public var maximumBytes: Int

    /// Limits with the given properties.
    public init(maximumBytes: Int = 512 << 20) { self.maximumBytes = maximumBytes }
}
