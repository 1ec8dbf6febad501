extension SecretServiceCredentialStore {
    /// Whether a locked keyring may be unlocked by asking the person.
    public enum Unlocking: Sendable, Hashable {
        /// Nobody is asked: a locked keyring is ``CredentialStoreError/locked(_:)`` at once. For everything that runs
        /// without somebody in front of it.
        case never
        /// The keyring service may show its prompt, and gives the person `deadline` to answer it. A dismissed prompt is
        /// ``CredentialStoreError/denied(_:)``, an unanswered one is taken back and
        /// ``CredentialStoreError/timedOut(_:)``. `deadline` must be positive; a minute is a good value.
        case promptAllowed(deadline: Duration)

        var promptLimit: Duration? {
            switch self {
            case .never: nil
            case .promptAllowed(let deadline): deadline
            }
        }
    }
}
