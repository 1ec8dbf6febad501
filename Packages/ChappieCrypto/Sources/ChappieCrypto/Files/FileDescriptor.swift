import ChappieAuth

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// An open file; closed when it goes. Everything here throws `failed` with the system's reason.
struct FileDescriptor: ~Copyable {
    let number: CInt
    /// For the messages.
    let path: String

    init(_ number: CInt, path: String) {
        self.number = number
        self.path = path
    }

    deinit { close(number) }

    /// Like openat(2), but goes on after a signal; below zero when it fails, with the reason in `errno`.
    static func open(_ path: String, in directory: CInt = AT_FDCWD, flags: CInt, mode: mode_t = 0) -> CInt {
        while true {
            let number = openat(directory, path, flags | O_CLOEXEC, mode)
            if number >= 0 || errno != EINTR { return number }
        }
    }

    func status() throws(CredentialStoreError) -> stat {
        var status = stat()
        guard fstat(number, &status) == 0 else { throw SystemFault().failure("\(path) can't be examined") }
        return status
    }

    /// Everything from here to the end, `limit` bytes and one more at the most: more than `limit` means too long.
    func readAll(limit: Int) throws(CredentialStoreError) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: min(limit + 1, 16 << 10))
        var filled = 0
        while filled <= limit {
            // Most files are far shorter than what they may be.
            if filled == bytes.count { bytes += [UInt8](repeating: 0, count: min(filled, limit + 1 - filled)) }
            let count = bytes.withUnsafeMutableBytes { buffer in
                read(number, buffer.baseAddress?.advanced(by: filled), buffer.count - filled)
            }
            if count == 0 { break }
            if count > 0 {
                filled += count
            } else if errno != EINTR {
                throw SystemFault().failure("\(path) can't be read")
            }
        }
        bytes.removeSubrange(filled...)
        return bytes
    }

    /// A part may have been written when it throws.
    func writeAll(_ bytes: [UInt8]) throws(CredentialStoreError) {
        var written = 0
        while written < bytes.count {
            let count = bytes.withUnsafeBytes { buffer in
                write(number, buffer.baseAddress?.advanced(by: written), buffer.count - written)
            }
            if count > 0 {
                written += count
            } else if count == 0 || errno != EINTR {
                throw SystemFault(count == 0 ? ENOSPC : errno).failure("\(path) can't be written")
            }
        }
    }

    /// Waits until what was written is on the disk. A file system that can't do that for a folder is no error.
    func synchronize() throws(CredentialStoreError) {
        while fsync(number) != 0 {
            if errno == EINVAL { return }
            if errno != EINTR { throw SystemFault().failure("\(path) can't be brought to the disk") }
        }
    }

    /// Takes the file's advisory lock if it is free. It goes with the descriptor, and with the process.
    func lockIfFree() -> Bool { flock(number, LOCK_EX | LOCK_NB) == 0 }
}
