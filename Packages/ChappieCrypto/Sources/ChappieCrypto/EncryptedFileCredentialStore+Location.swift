import FoundationEssentials

extension EncryptedFileCredentialStore {
    /// `$XDG_DATA_HOME/chappie/credentials`, or `~/.local/share/chappie/credentials` without that variable; `nil` without
    /// a home directory.
    ///
    /// Data, in the words of the XDG Base Directory Specification, since it is meant to last: configuration is what
    /// people publish with their dot files, state and cache are what they clear.
    public static var defaultDirectory: String? { directory(in: ProcessInfo.processInfo.environment) }

    static func directory(in environment: [String: String]) -> String? {
        // The specification: relative paths are invalid and ignored.
        if let data = environment["XDG_DATA_HOME"], data.hasPrefix("/") { return data + "/chappie/credentials" }
        guard let home = environment["HOME"], home.hasPrefix("/") else { return nil }
        return home + "/.local/share/chappie/credentials"
    }
}
