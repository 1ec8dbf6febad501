@_spi(ChappieInternals) public import ChappieAuth

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Answers whose files are at a path, before this program makes any there.
@_spi(ChappieInternals) public enum PathOwner {
    /// Refuses a place that belongs to another user when this program runs as root. Files that root makes there lock
    /// their owner out of all programs.
    ///
    /// - Parameter path: Need not exist. The nearest folder above it that exists is then examined.
    /// - Returns: `nil` if files may be made there.
    public static func refusal(of path: String) -> FolderProblem? {
        guard geteuid() == 0, let place = nearest(to: path), place.owner != 0 else { return nil }
        return FolderProblem(
            "\(place.path) belongs to user \(name(of: place.owner)), and this program runs as root",
            remedy: "Run it as that user, or with root's own home: sudo -H.")
    }

    /// The command that gives files of root back to this user, for a path that can't be opened. `nil` if there are no
    /// files of root among this user's.
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

    /// Why a file can't be written, from `errno`.
    public static func problem(writing path: String) -> FolderProblem {
        let words = String(cString: strerror(errno))
        return refusal(of: path)
            ?? FolderProblem("\(path) can't be written: \(words)", remedy: remedy(for: path) ?? "Check the folder.")
    }

    /// The path, or the first folder above it that can be examined, with its owner.
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
    /// The error about a folder without which nothing can be stored.
    @_spi(ChappieInternals) public init(_ problem: FolderProblem, for what: String? = nil) {
        self = .unusableFolder(
            what.map { "there is no folder for \($0): " + problem.reason } ?? problem.reason, remedy: problem.remedy)
    }
}
