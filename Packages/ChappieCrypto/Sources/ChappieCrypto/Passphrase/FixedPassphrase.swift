public import ChappieAuth

/// A passphrase that the program has already.
public struct FixedPassphrase: PassphraseSource {
    private let secret: Secret

    /// - Parameter secret: 1 byte or more.
    public init(_ secret: Secret) { self.secret = secret }

    public func passphrase(for purpose: PassphrasePurpose) -> Secret? { secret }
}
