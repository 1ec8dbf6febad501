@_spi(ChappieInternals) public import ChappieAuth
import ChappieCore

#if canImport(Security)
    import Security
#endif

/// The folders in which programs of this user keep files.
@_spi(ChappieInternals) public struct UserFolders: Sendable, Hashable {
    /// The folder of locks, notes of sign-outs and threads, which last. `nil` without a home directory.
    public let state: String?
    /// The folder of files that can be fetched again; the system may empty it. `nil` without a home directory.
    public let cache: String?

    /// The locks of credentials, and the notes beside them.
    public var locks: String? { state.map { $0 + "/locks" } }

    /// The folders of this platform.
    ///
    /// - Parameters:
    ///   - accessGroup: The keychain's access group in which programs share the credential. Linux shares these folders
    ///     among all of the user's programs and does not ask for it.
    ///   - appGroup: The app group of these programs, on Apple's platforms.
    ///   - variable: Looks up a variable of the process, on Linux.
    /// - Throws: ``CredentialStoreError/noSharedFolder(_:)``, on Apple's platforms.
    public static func ofPlatform(
        accessGroup: String? = nil, appGroup: String? = nil, _ variable: (String) -> String?
    ) throws(CredentialStoreError) -> UserFolders {
        #if canImport(Security)
            try UserFolders(on: .current, accessGroup: accessGroup, appGroup: appGroup)
        #else
            UserFolders(xdg: variable)
        #endif
    }

    // MARK: Linux

    /// `$XDG_STATE_HOME/chappie` and `$XDG_CACHE_HOME/chappie`, or `~/.local/state/chappie` and `~/.cache/chappie`.
    /// Relative paths are ignored, as the XDG Base Directory Specification says.
    init(xdg variable: (String) -> String?) {
        func absolute(_ name: String) -> String? { variable(name).flatMap { $0.hasPrefix("/") ? $0 : nil } }
        func folder(_ name: String, else ofHome: String) -> String? {
            (absolute(name) ?? absolute("HOME").map { $0 + ofHome }).map { $0 + "/chappie" }
        }
        state = folder("XDG_STATE_HOME", else: "/.local/state")
        cache = folder("XDG_CACHE_HOME", else: "/.cache")
    }

    // MARK: Apple's platforms

    /// The answers of an Apple system about a program.
    struct AppleSystem {
        /// The program's folder in Application Support, and the one for caches.
        var state: String?
        var cache: String?
        /// The folder of an app group; `nil` if this program can't use it.
        var container: (_ appGroup: String) -> String?
    }

    /// The program's own folders, or its app group's. A group whose name begins with `group.` may be both an app
    /// group and an access group of the keychain.
    ///
    /// - Throws: ``CredentialStoreError/noSharedFolder(_:)`` if the credential is shared and no app group is named, or
    ///   this program can't use it. The program's own folder would hold a lock that excludes no other program, and a
    ///   refresh token works once.
    init(on system: AppleSystem, accessGroup: String?, appGroup: String?) throws(CredentialStoreError) {
        let shared = accessGroup.flatMap { $0.hasPrefix("group.") ? $0 : nil }
        guard let group = appGroup ?? shared else {
            if let accessGroup {
                throw .noSharedFolder("the access group \(accessGroup) is shared, and no app group is named")
            }
            state = system.state
            cache = system.cache
            return
        }
        guard let container = system.container(group) else {
            throw .noSharedFolder("this program can't use the folder of the app group \(group)")
        }
        state = container + "/Library/Application Support/Chappie"
        cache = container + "/Library/Caches/Chappie"
    }
}

/// When an Apple system lets programs read files. Linux has no such classes.
@_spi(ChappieInternals) public enum FolderProtection: Sendable, Hashable {
    /// While the device is unlocked; a file that is open stays open.
    case completeUnlessOpen
    /// Once the device has been unlocked since it started.
    case completeUntilFirstUserAuthentication
    /// At any time.
    case none
}

/// Tells an Apple system how to protect and back up the files of a folder.
@_spi(ChappieInternals) public enum FolderCare {
    /// Protects the files that are made in the folder from now on, and leaves the folder out of the system's backups or
    /// takes that back. A disk without such attributes causes no error. Does nothing on Linux.
    public static func apply(_ protection: FolderProtection, isExcludedFromBackup: Bool, to path: String) {
        #if canImport(Security)
            let type: FileProtectionType =
                switch protection {
                case .completeUnlessOpen: .completeUnlessOpen
                case .completeUntilFirstUserAuthentication: .completeUntilFirstUserAuthentication
                case .none: .none
                }
            try? FileManager.default.setAttributes([.protectionKey: type], ofItemAtPath: path)
            var folder = URL(filePath: path, directoryHint: .isDirectory)
            var values = URLResourceValues()
            values.isExcludedFromBackup = isExcludedFromBackup
            try? folder.setResourceValues(values)
        #endif
    }
}

#if canImport(Security)
    // No machine of the project has run this: it is compiled against declarations that are written by hand.
    extension UserFolders.AppleSystem {
        /// This system, asked about this program. Programs without a sandbox share the folders of their user, so each
        /// has a folder of its own in them.
        static var current: Self {
            let files = FileManager.default
            func folder(_ kind: FileManager.SearchPathDirectory) -> String? {
                let program = Bundle.main.bundleIdentifier ?? ProcessInfo.processInfo.processName
                return files.urls(for: kind, in: .userDomainMask).first?.appending(path: "\(program)/Chappie").path
            }
            return Self(state: folder(.applicationSupportDirectory), cache: folder(.cachesDirectory)) { group in
                // A Mac names a folder for every group, also if the program may not use the group.
                let container = files.containerURL(forSecurityApplicationGroupIdentifier: group)?.path
                return container.flatMap { files.isWritableFile(atPath: $0) ? $0 : nil }
            }
        }
    }
#endif
