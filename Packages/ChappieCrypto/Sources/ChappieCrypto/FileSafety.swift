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
    /// The use of a file; each has to be the user's own and closed to others.
    enum Purpose {
        case credential, credentialFolder, passphrase
        /// systemd lets the service's user read a file of root's by an access control list, whose mask shows as the
        /// group's permission to read.
        case systemdPassphrase
    }

    /// - Parameter status: Not of a link's target, where links are not followed.
    /// - Throws: `unsafeFile`, with a remedy.
    static func check(_ status: stat, for purpose: Purpose, path: String) throws(CredentialStoreError) {
        let kind = status.st_mode & S_IFMT
        guard kind != S_IFLNK else {
            throw .unsafeFile(
                "\(path) is a symbolic link", remedy: "Remove the link, and name the place itself for the credentials.")
        }
        guard kind == (purpose == .credentialFolder ? S_IFDIR : S_IFREG) else {
            throw .unsafeFile(
                "\(path) is not a \(purpose == .credentialFolder ? "folder" : "regular file")",
                remedy: "Move it out of the way: \(quoted(path)).")
        }
        guard status.st_uid == geteuid() || (purpose == .systemdPassphrase && status.st_uid == 0) else {
            throw .unsafeFile(
                "\(path) belongs to user \(status.st_uid), and this program runs as user \(geteuid())",
                remedy: "Run the program as the user whose credentials these are, or choose another folder.")
        }
        guard status.st_mode & (purpose == .systemdPassphrase ? 0o037 : 0o077) == 0 else {
            let mode = String(status.st_mode & 0o7777 | 0o10000, radix: 8).dropFirst()
            let (file, remedy) =
                switch purpose {
                case .credential: ("", "If no other user could read or write it: chmod 600 \(quoted(path))")
                case .credentialFolder: ("the folder ", "If no other user could change it: chmod 700 \(quoted(path))")
                case .passphrase: ("the passphrase in ", "If no other user could read it: chmod 600 \(quoted(path))")
                case .systemdPassphrase:
                    ("the passphrase in ", "Let systemd hand it over with LoadCredential= or LoadCredentialEncrypted=.")
                }
            throw .unsafeFile("other users have access to \(file)\(path) (its mode is \(mode))", remedy: remedy)
        }
        // A file without any name was replaced after it was opened.
        guard purpose != .credential || status.st_nlink <= 1 else {
            throw .unsafeFile(
                "\(path) has \(status.st_nlink) names (hard links)",
                remedy: "Find out who made the others (find / -xdev -inum \(status.st_ino)) and remove them.")
        }
    }

    /// As a shell takes it for one word.
    private static func quoted(_ path: String) -> String {
        let plain = Set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+@".utf8)
        return path.utf8.allSatisfy(plain.contains) ? path : "'\(path.replacing("'", with: #"'\''"#))'"
    }
}
