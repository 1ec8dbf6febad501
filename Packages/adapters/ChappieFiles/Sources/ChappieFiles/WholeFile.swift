#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Reads whole files of bounded size.
@_spi(ChappieInternals) public enum WholeFile {
    /// The reason why a file could not be read.
    public enum Failure: Error, Sendable, Hashable {
        /// The file does not exist.
        case missing
        /// The path leads to a folder.
        case directory
        /// The path leads to a pipe, a socket or a device, which may never end.
        case special
        /// Other users can read or write the file, or it is not a regular file of this user's.
        case open
        /// Every user can write the file.
        case changeable
        /// The file has more bytes than the limit.
        case tooLarge
        /// The system's sentence.
        case system(String)

        /// Why the file can't be read, without a full stop: the system's words if it has some.
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
        /// A file with an end.
        case regular
        /// A file with an end that not every user can write.
        case guarded
        /// A file with an end that this user owns and no other user can open, by a name that is not a link.
        case ownAndPrivate
        /// Pipes and devices as well, which are read to their end.
        case any
    }

    /// The bytes of the file at `path`. Blocks until the disk, or the writer of a pipe, has answered.
    ///
    /// The open file is judged, because its name may lead somewhere else a moment later.
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

    /// The descriptor of an accepted file, and its size; pipes and devices have size 0.
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

/// The lines of a regular file, read when they are asked for. Closed at the end.
@_spi(ChappieInternals) public final class FileLines {
    private let descriptor: CInt
    private let limit: Int
    /// Read and not given out: from `start` on.
    private var buffer: [UInt8] = []
    private var start = 0
    private var count = 0
    private var hasEnded = false

    /// - Parameter limit: the most bytes of a file.
    public init(_ path: String, limit: Int) throws(WholeFile.Failure) {
        descriptor = try WholeFile.opened(path, limit: limit, kind: .regular).descriptor
        self.limit = limit
    }

    deinit { close(descriptor) }

    /// The first bytes that were not read yet, at most so many. They stay.
    public func start(_ length: Int) throws(WholeFile.Failure) -> [UInt8] {
        while buffer.count - start < length, try readMore() {}
        return Array(buffer[start...].prefix(length))
    }

    /// The next line without its line feed, and whether it has one: the last line may have none. `nil` at the end.
    public func next() throws(WholeFile.Failure) -> (bytes: [UInt8], isWhole: Bool)? {
        var searched = 0
        while true {
            if let end = buffer[(start + searched)...].firstIndex(of: UInt8(ascii: "\n")) {
                defer { start = end + 1 }
                return (Array(buffer[start..<end]), true)
            }
            searched = buffer.count - start
            guard try readMore() else { break }
        }
        defer { start = buffer.count }
        return searched == 0 ? nil : (Array(buffer[start...]), false)
    }

    private func readMore() throws(WholeFile.Failure) -> Bool {
        guard !hasEnded else { return false }
        guard let piece = readPiece(of: descriptor) else { throw WholeFile.failure() }
        hasEnded = piece.isEmpty
        count += piece.count
        guard count <= limit else { throw .tooLarge }
        // Memory stays at a line, and not at the file. More than half goes each time: a byte moves once on average.
        if start > buffer.count / 2 {
            buffer.removeFirst(start)
            start = 0
        }
        buffer += piece
        return !hasEnded
    }
}
