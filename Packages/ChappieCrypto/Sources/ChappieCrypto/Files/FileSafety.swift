import ChappieAuth

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// What may be said of a file or folder before anything in it is believed. Pure, but for the user's own number.
enum FileSafety {
    /// A credential's file: regular, ours, for nobody else, under one name.
    static func check(file status: stat, path: String) throws(CredentialStoreError) {
        try check(status, is: S_IFREG, path: path)
        guard status.st_mode & 0o077 == 0 else {
            throw .unsafeFile(
                "other users have access to \(path) (its mode is \(octal(status.st_mode)))",
                remedy: "If nobody else can have read or written it: chmod 600 \(quoted(path))")
        }
        // No name at all is a file that was replaced after it was opened.
        guard status.st_nlink <= 1 else {
            throw .unsafeFile(
                "\(path) has \(status.st_nlink) names (hard links)",
                remedy: "Find out who made the others (find / -xdev -inum \(status.st_ino)) and remove them.")
        }
    }

    /// The folder of the credentials: ours, for nobody else.
    static func check(directory status: stat, path: String) throws(CredentialStoreError) {
        try check(status, is: S_IFDIR, path: path)
        guard status.st_mode & 0o077 == 0 else {
            throw .unsafeFile(
                "other users have access to the folder \(path) (its mode is \(octal(status.st_mode)))",
                remedy: "If nobody else can have changed what is in it: chmod 700 \(quoted(path))")
        }
    }

    /// A passphrase's file: regular, ours, for nobody else.
    static func check(passphraseFile status: stat, path: String) throws(CredentialStoreError) {
        try check(status, is: S_IFREG, path: path)
        guard status.st_mode & 0o077 == 0 else {
            throw .unsafeFile(
                "other users have access to the passphrase in \(path) (its mode is \(octal(status.st_mode)))",
                remedy: "If nobody else can have read it: chmod 600 \(quoted(path))")
        }
    }

    /// A credential of systemd's: regular, ours or root's, for nobody else. systemd lets the service's user read a file of
    /// root's by an access control list, whose mask shows as the group's permission to read.
    static func check(systemdCredential status: stat, path: String) throws(CredentialStoreError) {
        try check(status, is: S_IFREG, path: path, mayBeRoots: true)
        guard status.st_mode & 0o037 == 0 else {
            throw .unsafeFile(
                "other users have access to the passphrase in \(path) (its mode is \(octal(status.st_mode)))",
                remedy: "Let systemd hand it over with LoadCredential= or LoadCredentialEncrypted=.")
        }
    }

    static func symbolicLink(_ path: String) -> CredentialStoreError {
        .unsafeFile(
            "\(path) is a symbolic link",
            remedy: "Remove the link, and name the place itself where the credentials shall lie.")
    }

    static func wrongKind(_ path: String, isDirectory: Bool) -> CredentialStoreError {
        .unsafeFile(
            isDirectory ? "\(path) is not a folder" : "\(path) is not a regular file",
            remedy: "Move it out of the way: \(quoted(path)).")
    }

    private static func check(
        _ status: stat, is kind: mode_t, path: String, mayBeRoots: Bool = false
    ) throws(CredentialStoreError) {
        guard status.st_mode & S_IFMT == kind else { throw wrongKind(path, isDirectory: kind == S_IFDIR) }
        guard status.st_uid == geteuid() || (mayBeRoots && status.st_uid == 0) else {
            throw .unsafeFile(
                "\(path) belongs to user \(status.st_uid), and this program runs as user \(geteuid())",
                remedy: "Run the program as the user whose credentials these are, or choose another folder.")
        }
    }

    private static func octal(_ mode: mode_t) -> String {
        let digits = String(mode & 0o7777, radix: 8)
        return String(repeating: "0", count: max(0, 4 - digits.count)) + digits
    }

    /// As a shell takes it for one word.
    private static func quoted(_ path: String) -> String {
        let plain = path.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"):
                true
            default: "/._-+@".utf8.contains(byte)
            }
        }
        return plain
            ? path
            : "'" + path.split(separator: "'", omittingEmptySubsequences: false).joined(separator: #"'\''"#) + "'"
    }
}
