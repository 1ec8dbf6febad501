public import ChappieAuth

/// Keeps credentials in this process's memory; they are gone with it.
///
/// For throw-away sign-ins and for machines where the person does not want anything stored. Never a fallback: it is used
/// only where a program chooses it.
public actor EphemeralCredentialStore: CredentialStore {
    private var secrets: [CredentialSlot: Secret] = [:]

    public init() {}

    public func load(_ slot: CredentialSlot) -> Secret? { secrets[slot] }
    public func save(_ secret: Secret, in slot: CredentialSlot) { secrets[slot] = secret }
    public func delete(_ slot: CredentialSlot) { secrets[slot] = nil }
}
