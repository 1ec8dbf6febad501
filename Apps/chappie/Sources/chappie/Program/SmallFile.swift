@_spi(ChappieInternals) import ChappieFiles
import ChappieSDK
import Glibc

/// Reads a whole file that the user named.
enum SmallFile {
    /// In bytes.
    static let limit = 16 << 20

    /// - Parameter isPrivate: refuses a file that others can have read or put there: only a plain file will do that this user
    ///   owns and no other can open.
    /// - Throws: ``CommandLineError`` that names the file and what is wrong with it.
    static func read(_ path: String, isPrivate: Bool = false) throws -> [UInt8] {
        let reason: String
        do throws(WholeFile.Failure) {
            return try WholeFile.contents(of: path, limit: limit, kind: isPrivate ? .ownAndPrivate : .any)
        } catch {
            switch error {
            case .missing: reason = String(cString: strerror(ENOENT))
            case .directory: reason = String(cString: strerror(EISDIR))
            case .system(let words): reason = words
            case .tooLarge: throw CommandLineError.usage("\(path) is over \(limit >> 20) MiB.")
            case .open, .special:
                throw CommandLineError.usage(
                    "\(path) is not a plain file of yours that is closed to other users.",
                    suggestion: "If you trust what is in it: chmod 600 \(path)")
            }
        }
        throw CommandLineError.usage("\(path) can't be read: \(reason).", suggestion: "Check the path.")
    }
}
