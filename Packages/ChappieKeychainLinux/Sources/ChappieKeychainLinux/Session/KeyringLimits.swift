/// How long a keyring call may take.
struct KeyringLimits {
    /// For what the service does by itself.
    let work: Duration
    /// For what the person is asked; `nil` when the person may not be asked to unlock anything.
    let prompt: Duration?
}
