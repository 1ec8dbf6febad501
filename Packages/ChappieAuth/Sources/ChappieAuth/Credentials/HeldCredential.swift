/// A credential in use.
struct HeldCredential: Sendable {
    let credential: Credential
    /// Grows with every change of tokens.
    let generation: Int
    let epoch: Int
    /// Whether the store has it too. Until then it is not used, and not let go.
    var isSaved: Bool
    /// What the store held when these tokens came, while it does not have them itself: only that is overwritten later.
    var replaces: Credential?
}
