import ChappieAuth

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// The open folder of the credentials. Everything in it is reached through its descriptor, so that nobody can put another
/// folder in its place between two steps. Synchronous.
struct CredentialDirectory: ~Copyable {
    let path: String
    let descriptor: FileDescriptor

    /// - Parameters:
    ///   - path: Absolute; the folder itself must not be a symbolic link, those above it may be.
    ///   - creating: Makes it, and those above it, for this user alone, where they are missing.
    /// - Returns: `nil` when it does not exist and shall not be made.
    /// - Throws: `unsafeFile`; `failed`.
    static func open(_ path: String, creating: Bool) throws(CredentialStoreError) -> CredentialDirectory? {
        guard path.hasPrefix("/"), !path.utf8.contains(0) else {
            throw .failed("the folder of the credentials needs an absolute path")
        }
        // Written anew: a slash at the end would make the system follow a link after all.
        let parts = path.split(separator: "/")
        let path = "/" + parts.joined(separator: "/")
        let flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW
        var number = FileDescriptor.open(path, flags: flags)
        if number < 0, errno == ENOENT {
            guard creating else { return nil }
            try make(parts)
            number = FileDescriptor.open(path, flags: flags)
        }
        guard number >= 0 else {
            let fault = SystemFault()
            guard fault.code == ELOOP || fault.code == ENOTDIR else {
                throw fault.failure("the folder \(path) can't be opened")
            }
            var status = stat()
            let isLink = lstat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFLNK
            throw isLink ? FileSafety.symbolicLink(path) : FileSafety.wrongKind(path, isDirectory: true)
        }
        let directory = CredentialDirectory(path: path, descriptor: FileDescriptor(number, path: path))
        try FileSafety.check(directory: directory.descriptor.status(), path: path)
        return directory
    }

    private static func make(_ parts: [Substring]) throws(CredentialStoreError) {
        var path = ""
        for part in parts {
            let parent = path.isEmpty ? "/" : path
            path += "/" + part
            if mkdir(path, 0o700) == 0 {
                // The process's mask may have taken rights from us.
                chmod(path, 0o700)
                let number = FileDescriptor.open(parent, flags: O_RDONLY | O_DIRECTORY)
                if number >= 0 { try FileDescriptor(number, path: parent).synchronize() }
            } else if errno != EEXIST {
                // One that is there may refuse with other words, on a file system that can't be written.
                let fault = SystemFault()
                guard access(path, F_OK) == 0 else { throw fault.failure("the folder \(path) can't be made") }
            }
        }
    }

    func path(of name: String) -> String { path + "/" + name }

    /// - Throws: `failed` when no file can be made here.
    func checkWritable() throws(CredentialStoreError) {
        guard faccessat(descriptor.number, ".", W_OK | X_OK, 0) == 0 else {
            throw SystemFault().failure("nothing can be written in the folder \(path)")
        }
    }

    /// What `name` holds; `nil` when there is no such file.
    ///
    /// - Throws: `unsafeFile`; `corrupt` when it is longer than any credential; `failed`.
    func read(_ name: String) throws(CredentialStoreError) -> [UInt8]? {
        guard let file = try open(name) else { return nil }
        try FileSafety.check(file: file.status(), path: file.path)
        let bytes = try file.readAll(limit: CredentialFile.limit)
        guard bytes.count <= CredentialFile.limit else {
            throw .corrupt("\(file.path) is longer than any credential file")
        }
        return bytes
    }

    /// Removes `name`, whatever it is but a folder, and without following it; that there is nothing is not an error.
    ///
    /// - Throws: `failed`.
    func remove(_ name: String) throws(CredentialStoreError) {
        guard unlinkat(descriptor.number, name, 0) == 0 else {
            if errno == ENOENT { return }
            throw SystemFault().failure("\(path(of: name)) can't be removed")
        }
        try descriptor.synchronize()
    }

    /// `nil` when there is no such file.
    func open(_ name: String) throws(CredentialStoreError) -> FileDescriptor? {
        // Without blocking: a pipe in the file's place must not hold us up.
        let number = FileDescriptor.open(
            name, in: descriptor.number, flags: O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY)
        guard number >= 0 else {
            let fault = SystemFault()
            switch fault.code {
            case ENOENT: return nil
            case ELOOP: throw FileSafety.symbolicLink(path(of: name))
            case ENXIO: throw FileSafety.wrongKind(path(of: name), isDirectory: false)
            default: throw fault.failure("\(path(of: name)) can't be opened")
            }
        }
        return FileDescriptor(number, path: path(of: name))
    }
}
