public import ChappieAuth

extension FileCredentialLock {
    /// The lock in the folder that all programs of this user share: `$XDG_STATE_HOME/chappie/locks`, and
    /// `~/.local/state/chappie/locks` without that variable.
    ///
    /// - Parameter variable: looks up a variable of the process.
    public static func userDefault(_ variable: (String) -> String?) -> FileCredentialLock {
        let home = variable("HOME").flatMap { $0.isEmpty ? nil : $0 + "/.local/state" }
        let state = variable("XDG_STATE_HOME").flatMap { $0.hasPrefix("/") ? $0 : nil } ?? home
        return FileCredentialLock(directory: state.map { $0 + "/chappie/locks" })
    }
}
