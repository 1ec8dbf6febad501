#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Writes all of `bytes`, over signals and short writes.
///
/// - Returns: 0, or the `errno` of the write that failed; a part may have been written then. A descriptor that takes
///   nothing counts as full (`ENOSPC`), one that would block returns `EAGAIN`.
@_spi(ChappieInternals) public func writeAll(_ bytes: UnsafeRawBufferPointer, to descriptor: Int32) -> Int32 {
    var rest = bytes[...]
    while !rest.isEmpty {
        let count = write(descriptor, UnsafeRawBufferPointer(rebasing: rest).baseAddress, rest.count)
        if count > 0 {
            rest = rest.dropFirst(count)
        } else if count == 0 || errno != EINTR {
            return count == 0 ? ENOSPC : errno
        }
    }
    return 0
}
