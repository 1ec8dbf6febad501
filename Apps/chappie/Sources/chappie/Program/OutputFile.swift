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

    /// - Parameter isPrivate: whether the file is only for this user, whatever its mode was, and is on the disk after
    ///   it has been written. Default `false`.
    /// - Throws: ``CommandLineError``.
    init(_ path: String, isPrivate: Bool = false) throws {
        self.path = path
        self.isPrivate = isPrivate
        var facts = stat()
        let isThere = stat(path, &facts) == 0
        guard !isThere || facts.st_mode & S_IFMT != S_IFDIR else { throw Self.failure(path, .isDirectory) }
        place =
            isThere
            ? realpath(path, nil).map { pointer in
                defer { free(pointer) }
                return String(cString: pointer)
            } ?? path : path
        guard !isThere || facts.st_mode & S_IFMT == S_IFREG else { return }
        guard !isThere || access(path, W_OK) == 0 else { throw Self.failure(path, .latest) }
        do {
            draft = try FileDraft(of: place, permissions: FilePermissions(rawValue: isPrivate ? 0o600 : 0o666))
        } catch {
            throw Self.failure(path, error)
        }
        // The file keeps its permissions.
        if isThere, !isPrivate { draft?.setPermissions(FilePermissions(rawValue: facts.st_mode & 0o7777)) }
    }

    /// Writes the content.
    ///
    /// - Throws: ``CommandLineError``, in which case the earlier content is still there, or `CancellationError`.
    func write(_ text: String) async throws {
        let bytes = Array(text.utf8)
        guard let draft else {
            // Writing to a named pipe waits for its reader.
            return try await onThread { [path, place] in try Self.write(bytes, in: place, as: path) }
        }
        do {
            try draft.replace(with: bytes, isDurable: isPrivate)
        } catch {
            throw Self.failure(path, error, .unavailable)
        }
        self.draft = nil
    }

    private static func write(_ bytes: [UInt8], in place: String, as path: String) throws {
        let file: Descriptor
        do {
            file = try Descriptor(place, .writeOnly)
        } catch {
            throw failure(path, error)
        }
        do {
            try file.write(bytes)
        } catch {
            throw failure(path, error, .unavailable)
        }
    }

    private static func failure(_ path: String, _ reason: Errno, _ status: ExitStatus = .usage) -> CommandLineError {
        CommandLineError(
            status, code: status == .usage ? "usage" : "output_failed",
            "\(path) can't be written: \(reason).",
            suggestion: "Name a file in a folder that you may write to.")
    }
}
