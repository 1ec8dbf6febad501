import ChappieAuth

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Why a system call failed.
struct SystemFault {
    let code: CInt

    init(_ code: CInt = errno) { self.code = code }

    /// `the store failed: /a/file can't be opened: Permission denied`.
    func failure(_ what: String) -> CredentialStoreError { .failed("\(what): \(String(cString: strerror(code)))") }
}
