import ChappieAuth
import Synchronization

/// A sealer that encrypts and decrypts the files of one store. All calls are synchronous and slow. See
/// ``ScryptParameters``.
final class CredentialSealer: Sendable {
    /// The bytes that scrypt derives from a passphrase and a salt.
    struct Key: Sendable {
        /// The passphrase, or `nil` for a key that was kept.
        let passphrase: Secret?
        let parameters: ScryptParameters
        let salt: [UInt8]
        let encryption: Secret
        /// The check value, which is stored unencrypted in the file's header.
        let check: [UInt8]

        init(_ passphrase: Secret, salt: [UInt8], parameters: ScryptParameters) throws(CredentialStoreError) {
            var derived = try CryptoLibrary.scrypt(
                CryptoLibrary.keyCount + CredentialFile.checkCount, from: passphrase, salt: salt, parameters: parameters
            )
            defer { CryptoLibrary.wipe(&derived) }
            self.passphrase = passphrase
            self.salt = salt
            self.parameters = parameters
            encryption = Secret(Array(derived.prefix(CryptoLibrary.keyCount)))
            check = Array(derived.suffix(CredentialFile.checkCount))
        }

        /// Creates the key that was kept for `file`.
        init(_ encryption: Secret, of file: CredentialFile) {
            passphrase = nil
            self.encryption = encryption
            parameters = file.parameters
            salt = file.salt
            check = file.check
        }
    }

    /// A secret that opens a file: a passphrase, or a key that was derived from it earlier.
    enum Opener: Sendable {
        case passphrase(Secret)
        case key(Key)
    }

    private let parameters: ScryptParameters
    /// The most recently derived key. A program that uses one slot derives it only once.
    private let lastKey = Mutex<Key?>(nil)

    init(parameters: ScryptParameters) { self.parameters = parameters }

    /// Decrypts the secret in `file`, which was read at `place`.
    ///
    /// - Throws: `wrongPassphrase`, or `corrupt` if the file was changed or belongs to another slot.
    func open(
        _ file: CredentialFile, at place: CredentialPlace, with opener: Opener
    ) throws(CredentialStoreError) -> Secret {
        let key = try key(of: file, at: place, with: opener)
        let secret = try CryptoLibrary.decrypt(
            file.ciphertext, tag: file.tag, key: key.encryption, nonce: file.nonce,
            authenticating: file.header(ciphertextCount: file.ciphertext.count) + place.digest)
        guard let secret else {
            throw .corrupt("\(place.path) belongs to another account, or it was changed on purpose")
        }
        return secret
    }

    /// Encrypts `secret` into a file that replaces `earlier`. The new file keeps the key of `earlier` unless its
    /// parameters are weaker than the current ones. Without an earlier file, it gets the key of another file with this
    /// passphrase, so that a program that opens both derives the key only once.
    ///
    /// - Parameter neighbour: Another file in the same folder.
    /// - Throws: `wrongPassphrase` if `passphrase` does not open `earlier`, since a mistyped passphrase must not lock
    ///   users out of their credential. `failed` if the secret is longer than 1 MiB.
    func seal(
        _ secret: Secret, for place: CredentialPlace, replacing earlier: CredentialFile?,
        nextTo neighbour: CredentialFile? = nil, with opener: Opener
    ) throws(CredentialStoreError) -> CredentialFile {
        guard secret.count <= CredentialFile.secretLimit else {
            throw .failed(
                "a secret of \(secret.count) bytes is longer than the limit of \(CredentialFile.secretLimit) bytes")
        }
        let kept: Key? = if let earlier { try key(of: earlier, at: place, with: opener) } else { nil }
        let key =
            switch opener {
            case .key(let key): key
            case .passphrase(let passphrase):
                if let kept, !kept.parameters.isWeaker(than: parameters) {
                    kept
                } else if let last = lastKey.withLock({ $0 }), last.parameters == parameters,
                    last.passphrase == passphrase
                {
                    last
                } else if earlier == nil, let neighbour, !neighbour.parameters.isWeaker(than: parameters),
                    let shared = try? self.key(
                        for: passphrase, salt: neighbour.salt, parameters: neighbour.parameters),
                    shared.check == neighbour.check
                {
                    shared
                } else {
                    try self.key(
                        for: passphrase, salt: CryptoLibrary.randomBytes(CredentialFile.saltCount),
                        parameters: parameters)
                }
            }
        var file = CredentialFile(
            parameters: key.parameters, salt: key.salt, check: key.check,
            nonce: try CryptoLibrary.randomBytes(CryptoLibrary.nonceCount))
        (file.ciphertext, file.tag) = try CryptoLibrary.encrypt(
            secret, key: key.encryption, nonce: file.nonce,
            authenticating: file.header(ciphertextCount: secret.count) + place.digest)
        return file
    }

    func forgetKey() { lastKey.withLock { $0 = nil } }

    /// Returns the key that was kept for a file, unless the file's parameters are too weak for a save.
    func keptKey(of file: CredentialFile, from origin: String) -> Key? {
        file.parameters.isWeaker(than: parameters) ? nil : KeptKeys.key(of: file, from: origin)
    }

    /// Keeps the most recently derived key, which has opened or created a file.
    func keepKey(from origin: String) {
        if let key = lastKey.withLock({ $0 }) { KeptKeys.keep(key, from: origin) }
    }

    private func key(
        of file: CredentialFile, at place: CredentialPlace, with opener: Opener
    ) throws(CredentialStoreError) -> Key {
        let key =
            switch opener {
            case .key(let key): key
            case .passphrase(let passphrase):
                try key(for: passphrase, salt: file.salt, parameters: file.parameters)
            }
        guard key.check == file.check, key.salt == file.salt else { throw .wrongPassphrase(place.path) }
        return key
    }

    private func key(
        for passphrase: Secret, salt: [UInt8], parameters: ScryptParameters
    ) throws(CredentialStoreError) -> Key {
        if let key = lastKey.withLock({ $0 }), key.salt == salt, key.parameters == parameters,
            key.passphrase == passphrase
        {
            return key
        }
        let key = try Key(passphrase, salt: salt, parameters: parameters)
        lastKey.withLock { $0 = key }
        return key
    }
}
