import Glibc

/// Writes files that are for this person alone.
enum PrivateFile {
    /// Replaces the file at `path` in one step, readable and writable for its owner alone, its missing folders as well.
    ///
    /// - Returns: whether that worked; errno says why not. What was there is then still there.
    static func replace(_ path: String, with bytes: [UInt8]) -> Bool {
        makeFolders(above: path)
        let draft = path + ".\(getpid())"
        guard create(draft, with: bytes) else { return false }
        guard rename(draft, path) == 0 else {
            let reason = errno
            unlink(draft)
            errno = reason
            return false
        }
        return true
    }

    /// Makes a new file at `path`, which must not be there, and brings it to the disk.
    static func create(_ path: String, with bytes: [UInt8]) -> Bool {
        let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { return false }
        var written = 0
        bytes.withUnsafeBytes { buffer in
            while written < buffer.count {
                let count = write(descriptor, buffer.baseAddress.map { $0 + written }, buffer.count - written)
                if count < 0, errno == EINTR { continue }
                guard count > 0 else { break }
                written += count
            }
        }
        guard written == bytes.count, fsync(descriptor) == 0 else {
            let reason = errno
            close(descriptor)
            unlink(path)
            errno = reason
            return false
        }
        close(descriptor)
        // The name as well: an export may be the only copy from now on.
        let folder = open(path.lastIndex(of: "/").map { String(path[...$0]) } ?? ".", O_RDONLY | O_CLOEXEC)
        guard folder >= 0 else { return true }
        fsync(folder)
        close(folder)
        return true
    }

    /// Makes the folders that are missing, for this person alone.
    static func makeFolders(above path: String) {
        var folder = ""
        for part in path.split(separator: "/").dropLast() {
            folder += "/" + part
            mkdir(folder, 0o700)
        }
    }
}
