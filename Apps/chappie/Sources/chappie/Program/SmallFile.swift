@_spi(ChappieInternals) import ChappieFiles
import ChappieSDK
import Glibc

/// A reader of complete files that the user named.
enum SmallFile {
    /// The maximum size of a file, in bytes.
    static let limit = 16 << 20

    static func exists(_ path: String) -> Bool { access(path, F_OK) == 0 }

    /// Reads a file.
    ///
    /// - Parameter isPrivate: whether to refuse a file that others may have read or written. The file must then be a
    ///   regular file that this user owns and no other user can open.
    /// - Throws: ``CommandLineError``, which names the file and the problem.
    static func read(_ path: String, isPrivate: Bool = false) throws -> [UInt8] {
        do throws(WholeFile.Failure) {
            return try WholeFile.contents(of: path, limit: limit, kind: isPrivate ? .ownAndPrivate : .any)
        } catch {
            switch error {
            case .missing, .directory, .system:
                throw CommandLineError.usage("\(path) can't be read: \(error.words).", suggestion: "Check the path.")
            case .tooLarge:
                throw CommandLineError.usage("\(path) is larger than \(limit >> 20) MiB.")
            case .open, .special, .changeable:
                throw CommandLineError.usage(
                    "\(path) is not a regular file that only you can open.",
                    suggestion: "If you trust its contents: chmod 600 \(path)")
            }
        }
    }
}
