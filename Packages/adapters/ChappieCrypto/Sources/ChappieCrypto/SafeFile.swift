public import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
import SystemPackage

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// The checks that files and folders with credentials must pass before their content is trusted.
@_spi(ChappieInternals) public enum SafeFile {
    /// The use of a file. Each file must belong to the user and be inaccessible to others.
    enum Purpose {
        case credential, credentialFolder
        /// A file with a passphrase. A pipe is also accepted. If the file belongs to root, root decides who reads it.
        /// The secrets of containers belong to root, and the user of the container can change neither their owner nor
        /// their permissions.
        case passphrase
        /// A file with a passphrase from systemd. systemd uses an access control list to let the service's user read a
        /// file that root owns. The mask of the list appears as the group's permission to read.
        case systemdPassphrase
        /// A file with the keys of a service, under the conditions of a passphrase.
        case sealingKeys
    }

    /// Opens a file or folder for reading, without following a link, and checks it. Returns `nil` if there is none.
    ///
    /// - Parameter folder: The open folder that `path` leads to. The default is to follow the path from its beginning.
    /// - Throws: `unsafeFile`, `failed`.
    static func open(
        _ path: String, in folder: Descriptor? = nil, for purpose: Purpose
    ) throws(CredentialStoreError) -> Descriptor? {
        let name = folder == nil ? path : path.lastIndex(of: "/").map { String(path[$0...].dropFirst()) } ?? path
        let file: Descriptor
        do {
            // If a pipe has the file's name, opening it must not block.
            let waits: FileDescriptor.OpenOptions = purpose == .credentialFolder ? .directory : .nonBlocking
            file = try Descriptor(name, .readOnly, [.noFollow, waits], in: folder)
        } catch .noSuchFileOrDirectory {
            return nil
        } catch {
            var status = stat()
            if fstatat(folder?.number ?? AT_FDCWD, name, &status, AT_SYMLINK_NOFOLLOW) == 0 {
                try check(status, for: purpose, path: path)
            }
            throw .system("\(path) can't be opened", error, at: path)
        }
        try check(status(of: file, path), for: purpose, path: path)
        return file
    }

    /// Opens the folder `directory`, which is an absolute path. If it is missing, makes it and the folders above it.
    ///
    /// - Throws: `unsafeFile`, `failed`.
    static func openOrMakeFolder(_ directory: String) throws(CredentialStoreError) -> Descriptor {
        if let folder = try open(directory, for: .credentialFolder) { return folder }
        if let refusal = PathOwner.refusal(of: directory) { throw .unsafeFile(refusal.reason, remedy: refusal.remedy) }
        var made = ""
        for part in directory.split(separator: "/") {
            let parent = made.isEmpty ? "/" : made
            made += "/" + part
            if mkdir(made, 0o700) == 0 {
                // The process's umask may have removed our permissions.
                chmod(made, 0o700)
                if let folder = try? Descriptor(parent, .readOnly, .directory) { try synchronize(folder, parent) }
            } else if errno != EEXIST {
                // On a read-only file system, mkdir may refuse an existing folder with another error.
                let reason = Errno.latest
                guard access(made, F_OK) == 0 else {
                    throw .system("the folder \(made) can't be made", reason, at: made)
                }
            }
        }
        guard let folder = try open(directory, for: .credentialFolder) else {
            throw .failed("the folder \(directory) was removed while it was being used")
        }
        return folder
    }

    /// Checks the conditions that a file or folder must meet before its content is trusted.
    ///
    /// - Parameters:
    ///   - status: The status of the link itself if links are not followed.
    ///   - user: The user who must own it. The default is the user of this process.
    /// - Throws: `unsafeFile`, with a remedy.
    static func check(
        _ status: stat, for purpose: Purpose, path: String, user: uid_t = geteuid()
    ) throws(CredentialStoreError) {
        let kind = status.st_mode & S_IFMT
        guard kind != S_IFLNK else {
            throw .unsafeFile(
                "\(path) is a symbolic link",
                remedy: "Put what it leads to in its place. A folder above may be a link.")
        }
        let isSecret = [.passphrase, .systemdPassphrase, .sealingKeys].contains(purpose)
        guard kind == (purpose == .credentialFolder ? S_IFDIR : S_IFREG) || purpose == .passphrase && kind == S_IFIFO
        else {
            throw .unsafeFile(
                "\(path) is not a \(purpose == .credentialFolder ? "folder" : "regular file")",
                remedy: isSecret
                    ? purpose == .sealingKeys
                        ? "Name a file that has the keys."
                        : "Name a file that holds the passphrase, or a pipe such as <(pass show chappie)."
                    : "Move it out of the way: \(shellQuoted(path)).")
        }
        let isRoots = isSecret && status.st_uid == 0
        guard status.st_uid == user || isRoots else {
            let remedy =
                isSecret
                ? "Copy it into a file of your own: install -m 600 \(shellQuoted(path)) FILE"
                : PathOwner.remedy(for: path) ?? PathOwner.refusal(of: path)?.remedy
                    ?? "Run the program as the user whose files these are, or choose another folder."
            throw .unsafeFile(
                "\(path) belongs to user \(status.st_uid), and this program runs as user \(user)",
                remedy: remedy)
        }
        let forbidden: mode_t = purpose == .systemdPassphrase ? 0o037 : isRoots ? 0o022 : 0o077
        guard status.st_mode & forbidden == 0 else {
            let mode = String(status.st_mode & 0o7777 | 0o10000, radix: 8).dropFirst()
            // A home folder that was restored from a backup contains several files with such permissions.
            let folder = purpose == .credential ? Self.folder(of: path) : path
            let (file, remedy) =
                switch purpose {
                case .credential:
                    ("", "If no other user could read or write it: chmod -R go-rwx \(shellQuoted(folder))")
                case .credentialFolder:
                    ("the folder ", "If no other user could change it: chmod -R go-rwx \(shellQuoted(folder))")
                case .passphrase, .sealingKeys:
                    (
                        purpose == .passphrase ? "the passphrase in " : "the keys in ",
                        "If no other user could \(isRoots ? "change" : "read") it: chmod \(isRoots ? "go-w" : "600") "
                            + shellQuoted(path)
                    )
                case .systemdPassphrase:
                    ("the passphrase in ", "Let systemd hand it over with LoadCredential= or LoadCredentialEncrypted=.")
                }
            throw .unsafeFile("other users have access to \(file)\(path) (its mode is \(mode))", remedy: remedy)
        }
        // If a file has no name any more, another file has replaced it since it was opened.
        guard purpose != .credential || status.st_nlink <= 1 else {
            throw .unsafeFile(
                "\(path) has \(status.st_nlink) names (hard links)",
                remedy: "Find out who made the others (find / -xdev -inum \(status.st_ino)) and remove them.")
        }
    }

    private static func folder(of path: String) -> String {
        path.lastIndex(of: "/").map { String(path[..<$0]) } ?? path
    }

    static func status(of file: Descriptor, _ path: String) throws(CredentialStoreError) -> stat {
        do {
            return try file.status()
        } catch {
            throw .system("\(path) can't be examined", error)
        }
    }

    /// Waits until the file or folder is on the disk.
    static func synchronize(_ file: Descriptor, _ path: String) throws(CredentialStoreError) {
        do {
            try file.synchronize()
        } catch {
            throw .system("\(path) can't be written to the disk", error)
        }
    }

    /// Returns the content of the file. If the file is longer than `limit`, returns one byte more than `limit`. Waits
    /// for the writer of a pipe, which may still be asking its user.
    static func contents(of file: Descriptor, _ path: String, limit: Int) throws(CredentialStoreError) -> [UInt8] {
        // This is more than most files contain, so that growing the array leaves no copies of a passphrase behind.
        var bytes: [UInt8] = []
        bytes.reserveCapacity(16 << 10)
        while bytes.count <= limit {
            var chunk: [UInt8]
            do {
                chunk = try file.read(atMost: min(limit + 1 - bytes.count, 16 << 10))
            } catch {
                throw .system("\(path) can't be read", error)
            }
            if chunk.isEmpty { break }
            bytes += chunk
            CryptoLibrary.wipe(&chunk)
        }
        return bytes
    }

    /// Reads the passphrase in a file of at most `limit` bytes. Returns `nil` if a systemd service has only other
    /// credentials.
    static func passphrase(at path: String, for purpose: Purpose, limit: Int) throws(CredentialStoreError) -> Secret? {
        guard !path.utf8.contains(0) else { throw .noPassphrase("the path of its file has a NUL character") }
        guard !path.isRepaired else { throw .noPassphrase("the path of its file is not UTF-8") }
        let file: Descriptor
        do {
            file = try Descriptor(path, .readOnly, .nonBlocking)
        } catch {
            if purpose == .systemdPassphrase, error == .noSuchFileOrDirectory { return nil }
            throw .noPassphrase("\(path) can't be opened: \(error.words)")
        }
        try check(status(of: file, path), for: purpose, path: path)
        var bytes = try contents(of: file, path, limit: limit)
        defer { CryptoLibrary.wipe(&bytes) }
        guard bytes.count <= limit else { throw .noPassphrase("\(path) holds more than \(limit) bytes") }
        // Editors and `echo` add a line break at the end.
        var line = bytes[...]
        if line.last == UInt8(ascii: "\n") {
            line.removeLast()
            if line.last == UInt8(ascii: "\r") { line.removeLast() }
        }
        guard !line.isEmpty else { throw .noPassphrase("\(path) is empty") }
        return Secret(Array(line))
    }

    /// Returns whether there is a folder at `path`. An existing folder is checked.
    ///
    /// - Throws: `unsafeFile`, `failed`.
    public static func hasFolder(_ path: String) throws(CredentialStoreError) -> Bool {
        try open(path, for: .credentialFolder) != nil
    }

    /// Makes the folder at `path` and the folders above it if it is missing. Also checks it.
    ///
    /// - Throws: `unsafeFile`, `failed`.
    public static func makeFolder(_ path: String) throws(CredentialStoreError) { _ = try openOrMakeFolder(path) }

    /// Returns whether there is a file at `path`, in a folder that was checked. An existing file is checked but not
    /// opened, because closing a file releases all locks that the process has on it.
    ///
    /// - Throws: `unsafeFile`, `failed`.
    public static func hasFile(_ path: String) throws(CredentialStoreError) -> Bool {
        var status = stat()
        guard lstat(path, &status) == 0 else {
            if errno == ENOENT { return false }
            throw .system("\(path) can't be examined")
        }
        try check(status, for: .credential, path: path)
        return true
    }
}

extension CredentialStoreError {
    /// Returns an error such as `/a/file can't be opened: Permission denied`.
    ///
    /// - Parameter path: The file, if its owner may be the reason.
    static func system(_ words: String, _ error: Errno = .latest, at path: String? = nil) -> CredentialStoreError {
        let reason = "\(words): \(error.words)"
        guard [EACCES, EPERM, ENOENT, ENOTDIR, EROFS].contains(error.rawValue), let path else { return .failed(reason) }
        let home = "Set HOME or XDG_DATA_HOME to a folder that you may write to."
        return .unusableFolder(reason, remedy: PathOwner.remedy(for: path) ?? home)
    }
}
