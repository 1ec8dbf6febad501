import ChappieAuth
@_spi(ChappieInternals) import ChappieCore

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// The open folder of the credentials. Everything in it is reached through its descriptor, so that the folder can't be
/// replaced by another one between two steps. Synchronous.
struct CredentialDirectory: ~Copyable {
    private let path: String
    private let folder: OpenFile

    /// - Parameters:
    ///   - path: Absolute, without a slash at its end; the folder itself must not be a symbolic link, those above it
    ///     may be.
    ///   - creating: Makes it, and those above it, for this user alone, where they are missing.
    /// - Returns: `nil` when it does not exist and shall not be made.
    /// - Throws: `unsafeFile`; `failed`.
    static func open(_ path: String, creating: Bool) throws(CredentialStoreError) -> CredentialDirectory? {
        if let folder = try OpenFile.checked(path, for: .credentialFolder) {
            return CredentialDirectory(path: path, folder: folder)
        }
        guard creating else { return nil }
        try make(path)
        return try open(path, creating: false)
    }

    private static func make(_ path: String) throws(CredentialStoreError) {
        var made = ""
        for part in path.split(separator: "/") {
            let parent = made.isEmpty ? "/" : made
            made += "/" + part
            if mkdir(made, 0o700) == 0 {
                // The process's mask may have taken rights from us.
                chmod(made, 0o700)
                try OpenFile(parent, flags: O_RDONLY | O_DIRECTORY)?.synchronize()
            } else if errno != EEXIST {
                // A folder that exists may be refused with other words, on a file system that can't be written.
                let reason = errno
                guard access(made, F_OK) == 0 else { throw .system("the folder \(made) can't be made", reason) }
            }
        }
    }

    /// - Throws: `failed` when no file can be made here.
    func checkWritable() throws(CredentialStoreError) {
        guard faccessat(folder.number, ".", W_OK | X_OK, 0) == 0 else {
            throw .system("nothing can be written in the folder \(path)")
        }
    }

    /// The content of the file `name`; `nil` when there is no such file.
    ///
    /// - Throws: `unsafeFile`; `corrupt` when it is longer than any credential; `failed`.
    func read(_ name: String) throws(CredentialStoreError) -> [UInt8]? {
        guard let file = try OpenFile.checked(name, in: folder.number, at: path, for: .credential) else { return nil }
        let bytes = try file.readAll(limit: CredentialFile.limit)
        guard bytes.count <= CredentialFile.limit else {
            throw .corrupt("\(path)/\(name) is longer than any credential file")
        }
        return bytes
    }

    /// Removes `name`, whatever it is but a folder, and without following it; an absent file is not an error.
    ///
    /// - Throws: `failed`.
    func remove(_ name: String) throws(CredentialStoreError) {
        guard unlinkat(folder.number, name, 0) == 0 else {
            if errno == ENOENT { return }
            throw .system("\(path)/\(name) can't be removed")
        }
        try folder.synchronize()
    }

    /// Replaces the content of `name` by `bytes`: the old or the new is there, never neither, whenever the program or
    /// the machine stops.
    ///
    /// They are written to a file beside it, brought to the disk, read back and checked; then the file is renamed, and
    /// the folder brought to the disk.
    ///
    /// - Parameter check: Is given what was read back, before anything is replaced, and throws when it is wrong.
    /// - Throws: `failed`, `unsafeFile` and the errors of `check`. The earlier content is then still there, but for one
    ///   case: when the folder can't be brought to the disk at the end.
    func replace(
        _ name: String, with bytes: [UInt8], check: ([UInt8]?) throws(CredentialStoreError) -> Void
    ) throws(CredentialStoreError) {
        let file = try makeTemporaryFile()
        let temporaryName = file.name
        do throws(CredentialStoreError) {
            let reason = bytes.withUnsafeBytes { writeAll($0, to: file.number) }
            guard reason == 0 else { throw .system("\(path)/\(temporaryName) can't be written", reason) }
            try file.synchronize()
            try check(read(temporaryName))
            guard renameat(folder.number, temporaryName, folder.number, name) == 0 else {
                throw .system("\(path)/\(name) can't be replaced")
            }
        } catch {
            unlinkat(folder.number, temporaryName, 0)
            throw error
        }
        // The lock on the file has to last until the file has its place.
        _ = consume file
        try folder.synchronize()
    }

    /// Removes what writers that were killed have left behind; live writers are known by the lock on their file. What
    /// can't be removed stays for the next time.
    func removeLeftovers() {
        for name in names() where Self.isTemporaryName(name) {
            guard let file = try? OpenFile.checked(name, in: folder.number, at: path, for: .credential),
                file.lockIfFree()
            else { continue }
            unlinkat(folder.number, name, 0)
        }
    }

    /// A new file that this process has locked: `.`, 32 random hexadecimal digits, `.writing`. Before it is locked
    /// another process may take it for a leftover, and lock or remove it; then another one is made.
    private func makeTemporaryFile() throws(CredentialStoreError) -> OpenFile {
        for _ in 0..<8 {
            let name = "." + hexadecimal(try Libcrypto.randomBytes(16)) + ".writing"
            let flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW
            guard let file = OpenFile(name, in: folder.number, at: path, flags: flags, mode: 0o600) else {
                throw .system("no file can be made in \(path)")
            }
            // The process's mask may have taken rights from us; it can't have given any to others.
            if fchmod(file.number, 0o600) == 0, file.lockIfFree(), try file.status().st_nlink == 1 { return file }
            unlinkat(folder.number, name, 0)
        }
        throw .failed("no file in \(path) can be locked")
    }

    private func names() -> [String] {
        // A descriptor of its own, since reading a folder moves its position.
        let number = openat(folder.number, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard number >= 0 else { return [] }
        guard let stream = fdopendir(number) else {
            close(number)
            return []
        }
        defer { closedir(stream) }
        var names: [String] = []
        // A folder with millions of files must not hold us up for long.
        while names.count < 10_000, let entry = readdir(stream) {
            // In place: the record ends with the name, and the type's 256 characters may reach beyond it.
            guard let offset = MemoryLayout<dirent>.offset(of: \.d_name) else { break }
            names.append(
                String(cString: UnsafeRawPointer(entry).advanced(by: offset).assumingMemoryBound(to: CChar.self)))
        }
        return names
    }

    static func isTemporaryName(_ name: String) -> Bool {
        name.utf8.count == 41 && name.hasPrefix(".") && name.hasSuffix(".writing")
            && name.utf8.dropFirst().prefix(32).allSatisfy(hexadecimalDigits.contains)
    }
}

private let hexadecimalDigits = Array("0123456789abcdef".utf8)

/// Bytes as lower-case hexadecimal digits.
func hexadecimal(_ bytes: [UInt8]) -> String {
    String(
        decoding: bytes.flatMap { [hexadecimalDigits[Int($0 >> 4)], hexadecimalDigits[Int($0 & 15)]] }, as: UTF8.self)
}

/// An open file, closed when it goes.
struct OpenFile: ~Copyable {
    let number: CInt
    let name: String
    /// For the messages.
    private let path: String

    /// Like openat(2), but goes on after a signal; `nil` when it fails, with the reason in `errno`.
    init?(_ name: String, in folder: CInt = AT_FDCWD, at path: String? = nil, flags: CInt, mode: mode_t = 0) {
        var descriptor: CInt
        repeat {
            descriptor = openat(folder, name, flags | O_CLOEXEC, mode)
        } while descriptor < 0 && errno == EINTR
        guard descriptor >= 0 else { return nil }
        number = descriptor
        self.name = name
        self.path = path.map { $0 + "/" + name } ?? name
    }

    /// Opens a file or folder to read it, without following a link, and checks it; `nil` when there is none.
    ///
    /// - Throws: `unsafeFile`; `failed`.
    static func checked(
        _ name: String, in folder: CInt = AT_FDCWD, at path: String? = nil, for purpose: FileSafety.Purpose
    ) throws(CredentialStoreError) -> OpenFile? {
        // A pipe in the file's place must not hold us up.
        let flags = O_RDONLY | O_NOFOLLOW | (purpose == .credentialFolder ? O_DIRECTORY : O_NONBLOCK | O_NOCTTY)
        if let file = OpenFile(name, in: folder, at: path, flags: flags) {
            try FileSafety.check(file.status(), for: purpose, path: file.path)
            return file
        }
        let reason = errno
        if reason == ENOENT { return nil }
        let path = path.map { $0 + "/" + name } ?? name
        var status = stat()
        if fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) == 0 {
            try FileSafety.check(status, for: purpose, path: path)
        }
        throw .system("\(path) can't be opened", reason)
    }

    deinit { close(number) }

    func status() throws(CredentialStoreError) -> stat {
        var status = stat()
        guard fstat(number, &status) == 0 else { throw .system("\(path) can't be examined") }
        return status
    }

    /// The content from here to the end; one byte more than `limit` when it is longer.
    func readAll(limit: Int) throws(CredentialStoreError) -> [UInt8] {
        // Room for more than most files have, so that growing leaves no copies of a passphrase behind.
        var bytes: [UInt8] = []
        bytes.reserveCapacity(16 << 10)
        while bytes.count <= limit {
            var chunk = [UInt8](repeating: 0, count: min(limit + 1 - bytes.count, 16 << 10))
            let count = read(number, &chunk, chunk.count)
            if count == 0 { break }
            if count > 0 { bytes += chunk[..<count] } else if errno != EINTR { throw .system("\(path) can't be read") }
            Libcrypto.wipe(&chunk)
        }
        return bytes
    }

    /// Waits until the written bytes are on the disk. A file system that can't do that for a folder is no error.
    func synchronize() throws(CredentialStoreError) {
        while fsync(number) != 0 {
            if errno == EINVAL { return }
            if errno != EINTR { throw .system("\(path) can't be brought to the disk") }
        }
    }

    /// Takes the file's advisory lock if it is free. It goes with the descriptor, and with the process.
    func lockIfFree() -> Bool { flock(number, LOCK_EX | LOCK_NB) == 0 }
}

extension CredentialStoreError {
    /// `/a/file can't be opened: Permission denied`.
    static func system(_ words: String, _ code: CInt = errno) -> CredentialStoreError {
        .failed("\(words): \(String(cString: strerror(code)))")
    }
}
