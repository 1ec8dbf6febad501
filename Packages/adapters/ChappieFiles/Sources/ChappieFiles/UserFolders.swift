@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) import ChappieCore

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif
#if canImport(Security)
    import Security
#endif

/// The folders in which programs of this user keep files. The same rule applies to each folder, for every adapter and
/// every command. A folder is `nil` if there is none. ``problem`` then contains the reason.
@_spi(ChappieInternals) public struct UserFolders: Sendable, Hashable {
    /// The user's home directory. It is `nil` on Apple's platforms, where nothing is stored next to the user's files.
    public let home: String?
    /// The folder of the user's settings and templates.
    public let configuration: String?
    /// The folder of credentials in files. They must be permanent, because users publish their configuration with their
    /// dot files, and clear state and cache.
    public let data: String?
    /// The folder of locks, threads and notes on sign-outs. The files are kept until they are deleted.
    public let state: String?
    /// The folder of files that can be fetched again. The system may empty it.
    public let cache: String?
    /// The reason why a folder is missing.
    public let problem: FolderProblem?

    /// The folder of the locks of credentials and of the notes next to them.
    public var locks: String? { state.map { $0 + "/locks" } }

    /// Returns the folders of this platform.
    ///
    /// - Parameter variable: A closure that looks up a variable of the process, on Linux.
    public static func ofPlatform(_ variable: (String) -> String?) -> UserFolders {
        #if canImport(Security)
            UserFolders(on: .current)
        #else
            UserFolders(xdg: variable)
        #endif
    }

    // MARK: Linux

    /// Finds `$XDG_STATE_HOME/chappie` or `~/.local/state/chappie`, and so on. Relative paths are ignored, as the XDG
    /// Base Directory Specification requires. If no home directory is set, the one in the user database is used. If the
    /// home directory is set and can't be used, it is not replaced by another, because the user's files would be
    /// somewhere else.
    ///
    /// - Parameters:
    ///   - variable: A closure that looks up a variable.
    ///   - userHome: A closure that returns the home directory in the user database.
    public init(xdg variable: (String) -> String?, userHome: () -> String? = Self.userHome) {
        var problem: FolderProblem?
        func absolute(_ name: String) -> Result<String, FolderProblem>? {
            guard let path = variable(name), path.hasPrefix("/") else { return nil }
            return path.isRepaired ? .failure(.notUTF8(name)) : .success(path)
        }
        let home: Result<String, FolderProblem> =
            if let set = variable("HOME"), !set.isEmpty {
                absolute("HOME")
                    ?? .failure(FolderProblem("HOME is not an absolute path", remedy: "Set HOME to an absolute path."))
            } else if let found = userHome(), found.hasPrefix("/"), !found.isRepaired {
                .success(found)
            } else {
                .failure(.homeless)
            }
        func folder(_ name: String, else ofHome: String) -> String? {
            switch absolute(name) ?? home.map({ $0 + ofHome }) {
            case .success(let parent): return parent + "/chappie"
            case .failure(let reason):
                problem = problem ?? reason
                return nil
            }
        }
        self.home = try? home.get()
        configuration = folder("XDG_CONFIG_HOME", else: "/.config")
        data = folder("XDG_DATA_HOME", else: "/.local/share")
        state = folder("XDG_STATE_HOME", else: "/.local/state")
        cache = folder("XDG_CACHE_HOME", else: "/.cache")
        self.problem = problem
    }

    /// Returns the home directory of this user from the user database.
    public static func userHome() -> String? { UserEntry(of: geteuid())?.home }

    // MARK: Apple's platforms

    /// The answers of an Apple system about a program.
    struct AppleSystem {
        /// The program's folder in Application Support, and its folder for caches.
        var state: String?
        var cache: String?
        /// A closure that returns the folder of an app group, or `nil` if this program can't use it.
        var container: (_ appGroup: String) -> String?
    }

    /// Uses the program's own folders.
    init(on system: AppleSystem) { self.init(state: system.state, cache: system.cache) }

    /// Uses the folders of an app group.
    ///
    /// - Throws: ``CredentialStoreError/noSharedFolder(_:)`` if this program can't use the app group.
    init(on system: AppleSystem, appGroup: String) throws(CredentialStoreError) {
        guard let container = system.container(appGroup) else {
            throw .noSharedFolder("this program can't use the folder of the app group \(appGroup)")
        }
        self.init(
            state: container + "/Library/Application Support/Chappie", cache: container + "/Library/Caches/Chappie")
    }

    /// Uses one folder for everything that is permanent.
    private init(state: String?, cache: String?) {
        home = nil
        configuration = state
        data = state
        self.state = state
        self.cache = cache
        problem = state == nil || cache == nil ? .homeless : nil
    }
}

/// A user's entry in the user database (getpwuid_r).
struct UserEntry {
    let name: String
    let home: String

    /// Finds the entry of a user. Returns `nil` without an entry, because a container may run as any user.
    init?(of user: uid_t) {
        var entry = passwd()
        var found: UnsafeMutablePointer<passwd>?
        var buffer = [CChar](repeating: 0, count: 16 << 10)
        let texts: (String, String)? = buffer.withUnsafeMutableBufferPointer { buffer in
            guard let memory = buffer.baseAddress,
                getpwuid_r(user, &entry, memory, buffer.count, &found) == 0, found != nil, let name = entry.pw_name,
                let home = entry.pw_dir
            else { return nil }
            return (String(cString: name), String(cString: home))
        }
        guard let (name, home) = texts else { return nil }
        self.name = name
        self.home = home
    }
}

/// The reason why a folder or a file can't be used, and the action that the user can take.
@_spi(ChappieInternals) public struct FolderProblem: Error, Sendable, Hashable {
    /// The reason, without a full stop.
    public let reason: String
    /// The user's next step, as a sentence.
    public let remedy: String

    /// Creates a problem with these texts.
    public init(_ reason: String, remedy: String) { (self.reason, self.remedy) = (reason, remedy) }

    /// The problem that no home directory is known.
    public static let homeless = FolderProblem("no home directory is known", remedy: "Set HOME.")

    /// Returns the problem that a variable contains bytes that are not UTF-8.
    public static func notUTF8(_ variable: String) -> FolderProblem {
        FolderProblem("\(variable) is not UTF-8", remedy: "Set \(variable) to a path in UTF-8.")
    }
}

/// The times at which an Apple system lets programs read files. Linux has no such classes.
@_spi(ChappieInternals) public enum FolderProtection: Sendable, Hashable {
    /// Files can be read while the device is unlocked. A file that is open stays open.
    case completeUnlessOpen
    /// Files can be read once the device has been unlocked after its start.
    case completeUntilFirstUserAuthentication
    /// Files can be read at any time.
    case none
}

/// Settings by which an Apple system protects and backs up the files of a folder.
@_spi(ChappieInternals) public enum FolderCare {
    /// Protects the files that are made in the folder from now on, and excludes the folder from the system's backups or
    /// includes it again. A disk without such attributes causes no error. Does nothing on Linux.
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
    // The project has not run this on any machine. It is compiled against declarations that are written by hand.
    extension UserFolders.AppleSystem {
        /// The current system and this program. Programs without a sandbox share the folders of their user, so each has
        /// its own folder inside them.
        static var current: Self {
            let files = FileManager.default
            func folder(_ kind: FileManager.SearchPathDirectory) -> String? {
                let program = Bundle.main.bundleIdentifier ?? ProcessInfo.processInfo.processName
                return files.urls(for: kind, in: .userDomainMask).first?.appending(path: "\(program)/Chappie").path
            }
            return Self(state: folder(.applicationSupportDirectory), cache: folder(.cachesDirectory)) { group in
                // A Mac returns a folder for every group, even if the program may not use the group.
                let container = files.containerURL(forSecurityApplicationGroupIdentifier: group)?.path
                return container.flatMap { files.isWritableFile(atPath: $0) ? $0 : nil }
            }
        }
    }
#endif
