@_spi(ChappieInternals) public import ChappieAuth
public import SystemPackage

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// A check of the owner of the files at a path, before this program makes any files there.
@_spi(ChappieInternals) public enum PathOwner {
    /// Returns the reason why no files may be made at a path: it belongs to another user and this program runs as root.
    /// Files that root makes there would prevent their owner from using any program.
    ///
    /// - Parameter path: A path that need not exist. The nearest folder above it that exists is then examined.
    /// - Returns: The reason, or `nil` if files may be made there.
    public static func refusal(of path: String) -> FolderProblem? {
        guard geteuid() == 0, let place = nearest(to: path), place.owner != 0 else { return nil }
        return FolderProblem(
            "\(place.path) belongs to user \(name(of: place.owner)), and this program runs as root",
            remedy: "Run it as that user, or with root's own home: sudo -H.")
    }

    /// Returns the command that gives root's files back to this user, for a path that can't be opened. Returns `nil` if
    /// there are no files of root among this user's files.
    public static func remedy(for path: String) -> String? {
        let user = geteuid()
        guard user != 0, var place = nearest(to: path) else { return nil }
        while place.owner == 0, place.path != "/", let parent = nearest(to: folder(of: place.path)) {
            guard parent.owner != user else {
                return "Give it back to yourself: sudo chown -R \(user):\(getegid()) \(shellQuoted(place.path))"
            }
            place = parent
        }
        return nil
    }

    /// Returns the reason why a file can't be written.
    public static func problem(writing path: String, _ error: Errno) -> FolderProblem {
        refusal(of: path)
            ?? FolderProblem(
                "\(path) can't be written: \(error.words)", remedy: remedy(for: path) ?? "Check the folder.")
    }

    /// Returns the path, or the first folder above it that can be examined, with its owner.
    private static func nearest(to path: String) -> (path: String, owner: uid_t)? {
        var place = path
        var facts = stat()
        while stat(place, &facts) != 0 {
            guard place != "/", place != "." else { return nil }
            place = folder(of: place)
        }
        return (place, facts.st_uid)
    }

    private static func folder(of path: String) -> String {
        let parts = path.split(separator: "/").dropLast().joined(separator: "/")
        return path.hasPrefix("/") ? "/" + parts : parts.isEmpty ? "." : parts
    }

    private static func name(of user: uid_t) -> String {
        UserEntry(of: user).map { "\($0.name) (\(user))" } ?? "\(user)"
    }
}

/// Quotes the text as one word for a shell.
@_spi(ChappieInternals) public func shellQuoted(_ text: String) -> String {
    let plain = Set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+@".utf8)
    return text.utf8.allSatisfy(plain.contains) ? text : "'\(text.replacing("'", with: #"'\''"#))'"
}

extension CredentialStoreError {
    /// Creates the error about a folder without which nothing can be stored.
    @_spi(ChappieInternals) public init(_ problem: FolderProblem, for what: String? = nil) {
        self = .unusableFolder(
            what.map { "there is no folder for \($0): " + problem.reason } ?? problem.reason, remedy: problem.remedy)
    }
}
