import ChappieAuth

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

extension CredentialDirectory {
    /// Puts `bytes` in the place of what `name` holds: the old or the new, never neither, whenever the program or the
    /// machine stops.
    ///
    /// Written to a file beside it, brought to the disk, read back and checked, renamed, and the folder brought to the
    /// disk.
    ///
    /// - Parameter check: Sees what was read back and throws when it is not what it should be; asked before anything is
    ///   replaced.
    /// - Throws: `failed`, `unsafeFile` and whatever `check` throws. What was there is then still there, but for one
    ///   case: when the folder can't be brought to the disk at the end.
    func replace(
        _ name: String, with bytes: [UInt8], check: ([UInt8]?) throws(CredentialStoreError) -> Void
    ) throws(CredentialStoreError) {
        let temporary = try makeTemporaryFile()
        do throws(CredentialStoreError) {
            try temporary.descriptor.writeAll(bytes)
            try temporary.descriptor.synchronize()
            try check(read(temporary.name))
            guard renameat(descriptor.number, temporary.name, descriptor.number, name) == 0 else {
                throw SystemFault().failure("\(path(of: name)) can't be replaced")
            }
        } catch {
            unlinkat(descriptor.number, temporary.name, 0)
            throw error
        }
        temporary.close()
        try descriptor.synchronize()
    }

    /// Removes what writers that were killed have left behind; live writers of this and other processes are known by
    /// the lock on their file. What can't be removed stays for the next time.
    func removeLeftovers() {
        for name in temporaryNames() {
            guard let file = try? open(name), let status = try? file.status(),
                status.st_mode & S_IFMT == S_IFREG, status.st_uid == geteuid(), file.lockIfFree()
            else { continue }
            unlinkat(descriptor.number, name, 0)
        }
    }

    /// A new file whose lock is ours.
    ///
    /// Between its making and its locking another process may take it for a leftover: it is then without a name, or
    /// locked by the other, and another one is made.
    private func makeTemporaryFile() throws(CredentialStoreError) -> TemporaryFile {
        for _ in 0..<8 {
            let name = TemporaryName.make(from: try RandomBytes.make(TemporaryName.randomCount))
            let number = FileDescriptor.open(
                name, in: descriptor.number, flags: O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode: 0o600)
            guard number >= 0 else { throw SystemFault().failure("no file can be made in \(path)") }
            let temporary = TemporaryFile(descriptor: FileDescriptor(number, path: path(of: name)), name: name)
            // The process's mask may have taken rights from us; it can't have given any to others.
            if fchmod(number, 0o600) == 0, temporary.descriptor.lockIfFree(),
                try temporary.descriptor.status().st_nlink == 1
            {
                return temporary
            }
            unlinkat(descriptor.number, name, 0)
        }
        throw .failed("no file in \(path) can be locked")
    }

    private func temporaryNames() -> [String] {
        // A descriptor of its own, since reading a folder moves its position.
        let number = FileDescriptor.open(".", in: descriptor.number, flags: O_RDONLY | O_DIRECTORY)
        guard number >= 0 else { return [] }
        guard let stream = fdopendir(number) else {
            close(number)
            return []
        }
        defer { closedir(stream) }
        var names: [String] = []
        // A folder that somebody has filled must not hold us up for long.
        for _ in 0..<10_000 {
            guard let entry = readdir(stream) else { break }
            // In place: the record ends with the name, and the type's 256 characters may reach beyond it.
            guard let offset = MemoryLayout<dirent>.offset(of: \.d_name) else { break }
            let name = String(
                cString: UnsafeRawPointer(entry).advanced(by: offset).assumingMemoryBound(to: CChar.self))
            if TemporaryName.isOne(name) { names.append(name) }
        }
        return names
    }
}
