import ChappieAuth

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// The conditions that a file or folder has to meet before anything in it is believed. Pure, but for the user's own
/// number.
enum FileSafety {
    /// What a file is for; each has to be the user's own and closed to others.
    enum Purpose {
        case credential, credentialFolder, passphrase
        /// systemd lets the service's user read a file of root's by an access control list, whose mask shows as the
        /// group's permission to read.
        case systemdPassphrase
    }

    /// - Throws: `unsafeFile`, with a remedy.
    static func check(_ status: stat, for purpose: Purpose, path: String) throws(CredentialStoreError) {
        let isFolder = purpose == .credentialFolder
        guard status.st_mode & S_IFMT == (isFolder ? S_IFDIR : S_IFREG) else {
            throw wrongKind(path, isFolder: isFolder)
        }
        guard status.st_uid == geteuid() || (purpose == .systemdPassphrase && status.st_uid == 0) else {
            throw .unsafeFile(
                "\(path) belongs to user \(status.st_uid), and this program runs as user \(geteuid())",
                remedy: "Run the program as the user whose credentials these are, or choose another folder.")
        }
        guard status.st_mode & (purpose == .systemdPassphrase ? 0o037 : 0o077) == 0 else {
            let (subject, remedy) =
                switch purpose {
                case .credential:
                    (path, "If nobody else can have read or written it: chmod 600 \(quoted(path))")
                case .credentialFolder:
                    ("the folder \(path)", "If nobody else can have changed its content: chmod 700 \(quoted(path))")
                case .passphrase:
                    ("the passphrase in \(path)", "If nobody else can have read it: chmod 600 \(quoted(path))")
                case .systemdPassphrase:
                    (
                        "the passphrase in \(path)",
                        "Let systemd hand it over with LoadCredential= or LoadCredentialEncrypted=."
                    )
                }
            let mode = String(status.st_mode & 0o7777, radix: 8)
            let digits = String(repeating: "0", count: max(0, 4 - mode.count)) + mode
            throw .unsafeFile("other users have access to \(subject) (its mode is \(digits))", remedy: remedy)
        }
        // A file without any name was replaced after it was opened.
        guard purpose != .credential || status.st_nlink <= 1 else {
            throw .unsafeFile(
                "\(path) has \(status.st_nlink) names (hard links)",
                remedy: "Find out who made the others (find / -xdev -inum \(status.st_ino)) and remove them.")
        }
    }

    static func symbolicLink(_ path: String) -> CredentialStoreError {
        .unsafeFile(
            "\(path) is a symbolic link", remedy: "Remove the link, and name the place itself for the credentials.")
    }

    static func wrongKind(_ path: String, isFolder: Bool) -> CredentialStoreError {
        .unsafeFile(
            "\(path) is not a \(isFolder ? "folder" : "regular file")",
            remedy: "Move it out of the way: \(quoted(path)).")
    }

    /// As a shell takes it for one word.
    private static func quoted(_ path: String) -> String {
        let plain = Set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+@".utf8)
        if path.utf8.allSatisfy(plain.contains) { return path }
        return "'" + path.split(separator: "'", omittingEmptySubsequences: false).joined(separator: #"'\''"#) + "'"
    }
}
