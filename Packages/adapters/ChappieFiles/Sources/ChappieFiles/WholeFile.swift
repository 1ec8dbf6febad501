import SystemPackage

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// A reader of complete files of limited size.
@_spi(ChappieInternals) public enum WholeFile {
    /// The maximum size of a file that the user named, in bytes.
    public static let limit = 16 << 20

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
        case tooLarge(limit: Int)
        /// Another failure, with the system's message.
        case system(String)

        fileprivate init(_ error: Errno) {
            self = error == .noSuchFileOrDirectory || error == .notDirectory ? .missing : .system(error.words)
        }

        /// The reason why the file can't be read, without a full stop. It is the system's message if there is one.
        public var words: String {
            switch self {
            case .missing: "\(Errno.noSuchFileOrDirectory)"
            case .special: "it is not a regular file"
            case .open: "it is not a regular file that only you can open"
            case .changeable: "every user can change it"
            case .directory: "\(Errno.isDirectory)"
            case .tooLarge(let limit): "it is larger than \(limit >> 20) MiB"
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
    public static func contents(
        of path: String, limit: Int = WholeFile.limit, kind: Kind = .regular
    ) throws(Failure) -> [UInt8] {
        let (file, size) = try opened(path, limit: limit, kind: kind)
        var bytes: [UInt8] = []
        bytes.reserveCapacity(size)
        do {
            // The file may grow while it is read, and files in /proc report a size of 0.
            while bytes.count <= limit {
                let piece = try file.read()
                if piece.isEmpty { return bytes }
                bytes += piece
            }
        } catch {
            throw Failure(error)
        }
        throw .tooLarge(limit: limit)
    }

    /// Opens an accepted file and returns its size. Pipes and devices have size 0.
    fileprivate static func opened(
        _ path: String, limit: Int, kind: Kind
    ) throws(Failure) -> (file: Descriptor, size: Int) {
        // Opening a pipe without a writer would block.
        var options: FileDescriptor.OpenOptions = kind == .any ? [] : .nonBlocking
        if kind == .ownAndPrivate { options.insert(.noFollow) }
        let file: Descriptor, facts: stat
        do {
            file = try Descriptor(path, .readOnly, options)
            facts = try file.status()
        } catch {
            throw kind == .ownAndPrivate && error == .tooManySymbolicLinkLevels ? .open : Failure(error)
        }
        let isRegular = facts.st_mode & S_IFMT == S_IFREG
        if kind == .ownAndPrivate, !isRegular || facts.st_uid != geteuid() || facts.st_mode & 0o077 != 0 { throw .open }
        guard facts.st_mode & S_IFMT != S_IFDIR else { throw .directory }
        guard isRegular || kind == .any else { throw .special }
        guard kind != .guarded || facts.st_mode & S_IWOTH == 0 else { throw .changeable }
        guard !isRegular || facts.st_size <= limit else { throw .tooLarge(limit: limit) }
        return (file, isRegular ? Int(facts.st_size) : 0)
    }
}

/// The bytes of a regular file, read on demand in pieces.
@_spi(ChappieInternals) public final class FilePieces {
    private let file: Descriptor
    private let limit: Int
    private var count = 0
    /// The bytes that were read and not returned yet.
    private var unread: [UInt8] = []

    /// Opens the file.
    ///
    /// - Parameters:
    ///   - start: The number of bytes at its beginning that are not read. Default 0.
    ///   - limit: The maximum number of bytes in the file.
    public init(_ path: String, from start: Int = 0, limit: Int) throws(WholeFile.Failure) {
        file = try WholeFile.opened(path, limit: limit, kind: .regular).file
        self.limit = limit
        lseek(file.number, off_t(start), SEEK_SET)
    }

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
        let piece: [UInt8]
        do {
            piece = try file.read()
        } catch {
            throw WholeFile.Failure(error)
        }
        count += piece.count
        guard count <= limit else { throw .tooLarge(limit: limit) }
        return piece
    }
}
