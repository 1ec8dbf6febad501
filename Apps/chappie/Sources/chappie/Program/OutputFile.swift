@_spi(ChappieInternals) import ChappieFiles
import ChappieSDK
import FoundationEssentials
import Glibc
import SystemPackage

/// A file that a command replaces in one step. It contains the complete old or the complete new content.
///
/// The initialiser tries to write in the file's folder, so that no answer is lost because of a path that cannot be
/// written. It follows a link. A pipe or a device is written directly.
final class OutputFile {
    /// The path that the user specified.
    let path: String
    private let place: String
    /// The draft of the content. `nil` for a pipe or a device, and when the content is in place.
    private var draft: FileDraft?
    private let isPrivate: Bool
    private let replaces: Bool

    /// - Parameters:
    ///   - store: the place of the kept threads, where no file is written.
    ///   - isPrivate: whether the file is only for this user, whatever its mode was, and is on the disk after it has
    ///     been written. Default `false`.
    ///   - clearsDrafts: whether to remove the drafts of the file that killed processes left. Default `true`.
    ///   - replaces: whether a file that exists may be replaced. Default `true`.
    /// - Throws: ``CommandLineError``.
    init(
        _ path: String, outside store: ThreadsFolder, isPrivate: Bool = false, clearsDrafts: Bool = true,
        replaces: Bool = true
    ) throws {
        self.path = path
        self.isPrivate = isPrivate
        self.replaces = replaces
        let target = Self.target(of: path)
        try store.refuse(path, at: target)
        var facts = stat()
        let isThere = stat(target, &facts) == 0
        guard !isThere || facts.st_mode & S_IFMT != S_IFDIR else { throw Self.failure(path, .isDirectory) }
        place = target
        let isOpen = Self.openFile(target) != nil
        guard !isThere || facts.st_mode & S_IFMT == S_IFREG && !isOpen else { return }
        guard !isThere || replaces else { throw Self.failure(path, .fileExists) }
        guard !isThere || access(target, W_OK) == 0 else { throw Self.failure(path, .latest) }
        if clearsDrafts { FileDraft.removeAbandoned(of: target) }
        do {
            draft = try FileDraft(of: target, permissions: FilePermissions(rawValue: isPrivate ? 0o600 : 0o666))
        } catch {
            throw Self.failure(path, error)
        }
        // The file keeps its permissions.
        if isThere, !isPrivate { draft?.setPermissions(FilePermissions(rawValue: facts.st_mode & 0o7777)) }
    }

    /// Writes the content.
    ///
    /// - Throws: ``CommandLineError``, in which case the earlier content is still there, or `CancellationError`.
    func write(_ text: String) async throws { try await write(Array(text.utf8)) }

    /// Writes the content. See ``write(_:)-(String)``.
    func write(_ bytes: [UInt8]) async throws {
        guard let draft else {
            // Writing to a named pipe waits for its reader.
            return try await onThread { [path, place] in try Self.write(bytes, in: place, as: path) }
        }
        do {
            try draft.replace(with: bytes, isDurable: isPrivate, onlyIfMissing: !replaces)
        } catch {
            throw Self.failure(path, error, error == .fileExists ? .usage : .unavailable)
        }
        self.draft = nil
    }

    private static func write(_ bytes: [UInt8], in place: String, as path: String) throws {
        let file: Descriptor
        do {
            if let number = openFile(place) {
                file = try Descriptor(dup(number))
            } else {
                file = try Descriptor(place, .writeOnly)
            }
        } catch {
            throw failure(path, error)
        }
        do {
            try file.write(bytes)
        } catch {
            throw failure(path, error, .unavailable)
        }
    }

    /// Returns the place to which the links of a path lead, even if there is no file yet.
    private static func target(of path: String) -> String {
        var place = path
        // Linux follows at most 40 links.
        for _ in 0..<40 {
            // A link there leads to an open file, whatever path it shows.
            guard !place.hasPrefix("/proc/"), openFile(place) == nil else { break }
            guard let link = try? FileManager.default.destinationOfSymbolicLink(atPath: place) else { break }
            let folder = place.lastIndex(of: "/").map { place[...$0] } ?? ""
            place = link.hasPrefix("/") ? link : folder + link
        }
        return place
    }

    /// Returns the number of the open file that a path such as `/dev/stdout` leads to. Such a file is written at its
    /// position and not replaced.
    private static func openFile(_ path: String) -> CInt? {
        let parts = path.split(separator: "/")
        let folder = parts.dropLast()
        guard folder.elementsEqual(["dev", "fd"]) || folder.elementsEqual(["proc", "self", "fd"]) else { return nil }
        return parts.last.flatMap { CInt($0) }
    }

    static func failure(_ path: String, _ reason: Errno, _ status: ExitStatus = .usage) -> CommandLineError {
        guard reason != .fileExists else {
            return .usage("\(path) exists.", suggestion: "Name another file, or replace it with --force.")
        }
        return CommandLineError(
            status, code: status == .usage ? "usage" : "output_failed",
            "\(path) can't be written: \(reason).",
            suggestion: reason == .noSpace || reason == .diskQuotaExceeded
                ? "Make room on its disk, or name a file on another one."
                : "Name a file in a folder that you may write to.")
    }
}

/// The folder of all kept threads of this program, whose files no command writes or imports.
struct ThreadsFolder: Sendable {
    /// `nil` if there is no home directory.
    let path: String?

    /// Returns whether a path leads into the folder, through any link or spelling.
    func contains(_ path: String) -> Bool {
        var own = stat()
        guard let store = self.path, stat(store, &own) == 0 else { return false }
        let folder = path.lastIndex(of: "/").map { String(path[...$0]) } ?? "."
        // A folder is compared by itself, because it may have several paths.
        guard var place = Self.canonical(path) ?? Self.canonical(folder) else { return false }
        while true {
            var facts = stat()
            if stat(place, &facts) == 0, facts.st_dev == own.st_dev, facts.st_ino == own.st_ino { return true }
            guard place != "/", let end = place.lastIndex(of: "/") else { return false }
            place = end == place.startIndex ? "/" : String(place[..<end])
        }
    }

    /// - Parameters:
    ///   - path: the path that the user specified.
    ///   - place: the place to which its links lead. Default: `path`.
    /// - Throws: ``CommandLineError`` if the path leads into the folder.
    func refuse(_ path: String, at place: String? = nil) throws {
        guard contains(place ?? path) else { return }
        throw CommandLineError.usage(
            "\(path) is in the folder of the kept threads.", suggestion: "Name a file in another folder.")
    }

    private static func canonical(_ path: String) -> String? {
        let pointer = realpath(path, nil)
        defer { free(pointer) }
        return pointer.map { String(cString: $0) }
    }
}
