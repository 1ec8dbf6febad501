#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// A reader of complete files of limited size.
@_spi(ChappieInternals) public enum WholeFile {
    /// The reason why a file could not be read.
    public enum Failure: Error, Sendable, Hashable {
        /// The file does not exist.
        case missing
        /// The path leads to a folder.
        case directory
        /// The path leads to a pipe, a socket or a device, which may never end.
        case special
        /// Other users can read or write the file, or it is not a regular file that belongs to this user.
        case open
        /// Every user can write the file.
        case changeable
        /// The file has more bytes than the limit.
        case tooLarge
        /// Another failure, with the system's message.
        case system(String)

        /// The reason why the file can't be read, without a full stop. It is the system's message if there is one.
        public var words: String {
            switch self {
            case .missing: String(cString: strerror(ENOENT))
            case .special: "it is not a regular file"
            case .open: "other users can open it"
            case .changeable: "every user can change it"
            case .directory: String(cString: strerror(EISDIR))
            case .tooLarge: String(cString: strerror(EFBIG))
            case .system(let words): words
            }
        }
    }

    /// The files that are accepted.
    public enum Kind: Sendable {
        /// A regular file, which has an end.
        case regular
        /// A regular file that not every user can write.
        case guarded
        /// A regular file that this user owns and that no other user can open, by a name that is not a link.
        case ownAndPrivate
        /// Any file. Pipes and devices are read to their end.
        case any
    }

    /// Returns the bytes of the file at `path`. Blocks until the disk, or the writer of a pipe, has answered.
    ///
    /// The checks examine the open file, because its name may refer to another file a moment later.
    public static func contents(of path: String, limit: Int, kind: Kind = .regular) throws(Failure) -> [UInt8] {
        let (descriptor, size) = try opened(path, limit: limit, kind: kind)
        defer { close(descriptor) }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(size)
        // The file may grow while it is read, and files in /proc report a size of 0.
        while let piece = readPiece(of: descriptor) {
            if piece.isEmpty { return bytes }
            bytes += piece
            guard bytes.count <= limit else { throw .tooLarge }
        }
        throw failure()
    }

    /// Opens an accepted file and returns its descriptor and its size. Pipes and devices have size 0.
    fileprivate static func opened(
        _ path: String, limit: Int, kind: Kind
    ) throws(Failure) -> (descriptor: CInt, size: Int) {
        guard !path.utf8.contains(0) else { throw .missing }
        // Opening a pipe without a writer would block.
        var flags = kind == .any ? O_RDONLY | O_CLOEXEC : O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY
        if kind == .ownAndPrivate { flags |= O_NOFOLLOW }
        let descriptor = open(path, flags)
        guard descriptor >= 0 else {
            if kind == .ownAndPrivate, errno == ELOOP { throw .open }
            throw errno == ENOENT || errno == ENOTDIR ? .missing : failure()
        }
        do throws(Failure) {
            return (descriptor, try size(of: descriptor, limit: limit, kind: kind))
        } catch {
            close(descriptor)
            throw error
        }
    }

    private static func size(of descriptor: CInt, limit: Int, kind: Kind) throws(Failure) -> Int {
        var facts = stat()
        guard fstat(descriptor, &facts) == 0 else { throw failure() }
        let isRegular = facts.st_mode & S_IFMT == S_IFREG
        if kind == .ownAndPrivate, !isRegular || facts.st_uid != geteuid() || facts.st_mode & 0o077 != 0 { throw .open }
        guard facts.st_mode & S_IFMT != S_IFDIR else { throw .directory }
        guard isRegular || kind == .any else { throw .special }
        guard kind != .guarded || facts.st_mode & S_IWOTH == 0 else { throw .changeable }
        guard !isRegular || facts.st_size <= limit else { throw .tooLarge }
        return isRegular ? Int(facts.st_size) : 0
    }

    fileprivate static func failure() -> Failure { .system(String(cString: strerror(errno))) }
}

/// The bytes of a regular file, read on demand in pieces. The file is closed when this object is destroyed.
@_spi(ChappieInternals) public final class FilePieces {
    private let descriptor: CInt
    private let limit: Int
    private var count = 0
    /// The bytes that were read and not returned yet.
    private var unread: [UInt8] = []

    /// Opens the file.
    ///
    /// - Parameter limit: The maximum number of bytes in the file.
    public init(_ path: String, limit: Int) throws(WholeFile.Failure) {
        descriptor = try WholeFile.opened(path, limit: limit, kind: .regular).descriptor
        self.limit = limit
    }

    deinit { close(descriptor) }

    /// Returns the first unread bytes, at most `length` of them, without consuming them.
    public func start(_ length: Int) throws(WholeFile.Failure) -> [UInt8] {
        while unread.count < length {
            let piece = try read()
            if piece.isEmpty { break }
            unread += piece
        }
        return Array(unread.prefix(length))
    }

    /// Returns the next bytes, which are empty at the end.
    public func next() throws(WholeFile.Failure) -> [UInt8] {
        guard unread.isEmpty else {
            defer { unread = [] }
            return unread
        }
        return try read()
    }

    private func read() throws(WholeFile.Failure) -> [UInt8] {
        guard let piece = readPiece(of: descriptor) else { throw WholeFile.failure() }
        count += piece.count
        guard count <= limit else { throw .tooLarge }
        return piece
    }
}
