#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Writes all of `bytes`, even after signals and short writes. Waits for a descriptor that would block, because another
/// program may have set that mode on a shared descriptor.
///
/// - Returns: 0, or the `errno` of the write that failed, in which case a part may have been written. A descriptor that
///   accepts nothing counts as full (`ENOSPC`).
@_spi(ChappieInternals) public func writeAll(_ bytes: UnsafeRawBufferPointer, to descriptor: Int32) -> Int32 {
    var rest = bytes[...]
    while !rest.isEmpty {
        let count = write(descriptor, UnsafeRawBufferPointer(rebasing: rest).baseAddress, rest.count)
        if count > 0 {
            rest = rest.dropFirst(count)
        } else if count == 0 {
            return ENOSPC
        } else if errno == EAGAIN {
            var poller = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
            _ = poll(&poller, 1, -1)
        } else if errno != EINTR {
            return errno
        }
    }
    return 0
}

/// Reads the next bytes. Waits for them, even after signals and for a descriptor that would block. Returns an empty
/// array at the end, and `nil` after a failure, whose reason is in `errno`.
@_spi(ChappieInternals) public func readPiece(of descriptor: CInt, atMost limit: Int = 64 << 10) -> [UInt8]? {
    var piece = [UInt8](repeating: 0, count: limit)
    while true {
        let count = read(descriptor, &piece, piece.count)
        if count >= 0 { return Array(piece[..<count]) }
        if errno == EAGAIN {
            var poller = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            _ = poll(&poller, 1, -1)
        } else if errno != EINTR {
            return nil
        }
    }
}
