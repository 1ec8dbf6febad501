@_spi(ChappieInternals) import ChappieCore
public import SystemPackage

#if canImport(Glibc)
    public import Glibc
#elseif canImport(Musl)
    public import Musl
#else
    public import Darwin
#endif

/// An open file, folder, pipe or socket. It is closed when its last owner releases it, and programs that this process
/// starts don't inherit it.
///
/// It adds what swift-system's `FileDescriptor` lacks: an owner, sockets, and calls that wait, lock, or open a file in an
/// open folder. A call that a signal interrupts is repeated.
@_spi(ChappieInternals) public final class Descriptor: Sendable {
    /// Standard input of this process, which is never closed.
    public static let standardInput = Descriptor(.standardInput)
    /// Standard output of this process, which is never closed.
    public static let standardOutput = Descriptor(.standardOutput)
    /// Standard error of this process, which is never closed.
    public static let standardError = Descriptor(.standardError)

    private let file: FileDescriptor

    private init(_ file: FileDescriptor) { self.file = file }

    /// Takes over the result of a system call. If it is negative, throws the reason that the call has left in `errno`.
    public convenience init(_ number: CInt) throws(Errno) {
        guard number >= 0 else { throw .latest }
        self.init(FileDescriptor(rawValue: number))
    }

    /// Opens a file. It never becomes the controlling terminal.
    ///
    /// - Parameters:
    ///   - path: A path. If it is relative, it begins at `folder`, or at the current folder if that is `nil`.
    ///   - permissions: The permissions of a file that this call makes. By default, only this user has access.
    public convenience init(
        _ path: String, _ mode: FileDescriptor.AccessMode = .readOnly, _ options: FileDescriptor.OpenOptions = [],
        permissions: FilePermissions = .ownerReadWrite, in folder: Descriptor? = nil
    ) throws(Errno) {
        // A C string ends at the first NUL character, so another file could be opened.
        guard !path.utf8.contains(0) else { throw .noSuchFileOrDirectory }
        let flags = mode.rawValue | options.rawValue | O_CLOEXEC | O_NOCTTY
        var number: CInt
        repeat {
            number = openat(folder?.number ?? AT_FDCWD, path, flags, permissions.rawValue)
        } while number < 0 && errno == EINTR
        try self.init(number)
    }

    deinit { try? file.close() }

    /// The system's number, for calls that have no method here.
    public var number: CInt { file.rawValue }

    /// Reads the next bytes. Waits for them, even if the descriptor does not block. Returns an empty array at the end.
    public func read(atMost limit: Int = 64 << 10) throws(Errno) -> [UInt8] {
        while true {
            if let bytes = try readArrived(atMost: limit) { return bytes }
            wait(for: POLLIN)
        }
    }

    /// Reads the next bytes. Returns an empty array at the end, and `nil` if the descriptor does not block and no byte
    /// has arrived yet.
    public func readArrived(atMost limit: Int = 64 << 10) throws(Errno) -> [UInt8]? {
        try unlessBlocked {
            try [UInt8](unsafeUninitializedCapacity: limit) { buffer, count in
                count = try file.read(into: UnsafeMutableRawBufferPointer(buffer))
            }
        }
    }

    /// Writes all bytes. Waits for a descriptor that does not block, because another program may have set that mode on
    /// a shared descriptor. If this throws, a part may have been written.
    public func write(_ bytes: [UInt8]) throws(Errno) {
        var rest = bytes[...]
        while !rest.isEmpty {
            if let count = try writeSome(rest) { rest = rest.dropFirst(count) } else { wait(for: POLLOUT) }
        }
    }

    /// Writes as many bytes as the descriptor accepts. Returns their number, or `nil` if the descriptor does not block
    /// and accepts none yet. A descriptor that never accepts any counts as full.
    public func writeSome(_ bytes: ArraySlice<UInt8>) throws(Errno) -> Int? {
        let count = try unlessBlocked { try bytes.withUnsafeBytes { try file.write($0) } }
        guard count != 0 || bytes.isEmpty else { throw .noSpace }
        return count
    }

    /// Calls swift-system, which declares no type of its errors. All of them are `Errno`.
    private func unlessBlocked<Output>(_ body: () throws -> Output) throws(Errno) -> Output? {
        do {
            return try body()
        } catch Errno.resourceTemporarilyUnavailable {
            return nil
        } catch {
            throw error as? Errno ?? .ioError
        }
    }

    /// Waits until the descriptor is ready or has failed. Returns `false` if the limit passes before that.
    ///
    /// - Parameter events: `POLLIN` or `POLLOUT` of poll(2).
    @discardableResult
    public func wait(for events: CInt, limit: Duration? = nil) -> Bool {
        var polled = pollfd(fd: number, events: Int16(events), revents: 0)
        let milliseconds = limit.map { CInt(clamping: Int64(max(.zero, $0) / .milliseconds(1)) + 1) } ?? -1
        var count: CInt
        repeat { count = poll(&polled, 1, milliseconds) } while count < 0 && errno == EINTR
        return count > 0
    }

    /// Makes reads and writes return at once instead of waiting. The other end of a pipe is not changed.
    public func stopBlocking() { _ = fcntl(number, F_SETFL, fcntl(number, F_GETFL) | O_NONBLOCK) }

    /// Keeps other programs from inheriting a descriptor that the system made without that property.
    public func stopInheritance() { _ = fcntl(number, F_SETFD, FD_CLOEXEC) }

    /// Returns the type, the owner, the permissions and the size of the file.
    public func status() throws(Errno) -> stat {
        var status = stat()
        guard fstat(number, &status) == 0 else { throw .latest }
        return status
    }

    /// Waits until the written bytes are on the disk, so that they survive a power failure. Some file systems can't do
    /// that for a folder, which is not an error.
    public func synchronize() throws(Errno) {
        #if canImport(Darwin)
            // There fsync leaves the bytes in the cache of the drive. A file system without the request has only fsync.
            if fcntl(number, F_FULLFSYNC) == 0 { return }
        #endif
        while fsync(number) != 0 {
            if errno == EINVAL { return }
            guard errno == EINTR else { throw .latest }
        }
    }

    /// Takes the file's advisory lock if it is free, and returns whether it was. The lock ends with the last copy of
    /// the descriptor.
    ///
    /// - Throws: The reason if the file system has no locks.
    public func lockIfFree() throws(Errno) -> Bool {
        if flock(number, LOCK_EX | LOCK_NB) == 0 { return true }
        guard errno == EWOULDBLOCK || errno == EINTR else { throw .latest }
        return false
    }
}

// MARK: Sockets

@_spi(ChappieInternals) extension Descriptor {
    /// Creates a socket.
    ///
    /// - Parameters:
    ///   - family: The family of its addresses, such as `AF_INET`.
    ///   - isDatagram: Whether it sends datagrams. By default it sends a stream.
    public static func socket(_ family: CInt, isDatagram: Bool = false) throws(Errno) -> Descriptor {
        let socket = try Descriptor(systemSocket(family, isDatagram ? datagramType : streamType, 0))
        socket.stopInheritance()
        return socket
    }

    /// Creates two connected sockets.
    public static func socketPair() throws(Errno) -> (Descriptor, Descriptor) {
        var numbers: [CInt] = [-1, -1]
        guard socketpair(AF_UNIX, streamType, 0, &numbers) == 0 else { throw .latest }
        let ends = (try Descriptor(numbers[0]), try Descriptor(numbers[1]))
        ends.0.stopInheritance()
        ends.1.stopInheritance()
        return ends
    }
}

#if canImport(Glibc)
    // A program that another thread starts before `stopInheritance` does not inherit it either.
    private let streamType = CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue)
    private let datagramType = CInt(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue)
#else
    private let (streamType, datagramType) = (SOCK_STREAM, SOCK_DGRAM)
#endif

/// Calls socket(2), which a method of the same name hides.
private func systemSocket(_ family: CInt, _ type: CInt, _ protocolNumber: CInt) -> CInt {
    socket(family, type, protocolNumber)
}

extension Errno {
    /// The reason why the last system call of this thread failed.
    @_spi(ChappieInternals) public static var latest: Errno { Errno(rawValue: errno) }

    /// The system's message, without a full stop. If too many files are open, it names the limit and the next step.
    @_spi(ChappieInternals) public var words: String {
        let limit: OpenFileLimit
        switch self {
        case .tooManyOpenFiles: limit = OpenFileLimit(of: sysconf(CInt(_SC_OPEN_MAX)))
        case .tooManyOpenFilesInSystem: limit = OpenFileLimit(of: nil)
        default: return description
        }
        return "\(limit.reason). \(limit.advice.dropLast())"
    }
}
