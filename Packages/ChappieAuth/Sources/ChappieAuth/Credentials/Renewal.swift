/// What a renewal came to.
struct Renewal: Sendable {
    let held: HeldCredential
    /// Whether the tokens come from the server, not from the store or from somebody else's renewal.
    let usedNetwork: Bool
}
