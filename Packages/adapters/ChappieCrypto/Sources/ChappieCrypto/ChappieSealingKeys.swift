public import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
import SystemPackage

/// The operator's keys with which a service encrypts the credentials of its users, outside of the place that stores them.
///
/// A new credential is encrypted with the current key. The earlier keys only open what was encrypted before a change of
/// the key. `openssl rand -base64 32 | tr '+/' '-_' | tr -d =` makes a key.
///
/// ```swift
/// let keys = try ChappieSealingKeys.file("/run/credentials/chat.service/chappie-keys")
/// ```
/// To change the key on machines that run without a break, add the new key at the end of the list on each machine. When
/// all machines have it, move it to the beginning. A machine that does not have a key can't read what another one has
/// encrypted with it.
public struct ChappieSealingKeys: Sendable {
    /// The environment variable that ``environment(_:)`` reads by default.
    public static let variable = "CHAPPIE_SEALING_KEYS"
    private static let fileLimit = 16 << 10

    /// The keys with their numbers. The first is the current one.
    private let keys: [(id: Int, key: Secret)]

    /// Creates keys from their bytes.
    ///
    /// - Parameters:
    ///   - current: The 32 random bytes with which new credentials are encrypted.
    ///   - earlier: The keys of 32 bytes that still open older credentials. Default: none.
    /// - Throws: ``ChappieAuth/CredentialStoreError/failed(_:)`` for a key of another length.
    public init(current: Secret, earlier: [Secret] = []) throws(CredentialStoreError) {
        var keys: [(id: Int, key: Secret)] = []
        for key in [current] + earlier {
            guard key.count == CryptoLibrary.keyCount else {
                throw .failed("a sealing key must have 32 bytes, and one has \(key.count)")
            }
            keys.append((try RecordSealer(key).id, key))
        }
        self.keys = keys
    }

    /// Reads the keys in a file, one in each line in base64url. The first is the current one.
    ///
    /// The file must belong to this user and be inaccessible to others. Alternatively, it may belong to root, if only
    /// root can change it, as a credential of systemd and a secret of a container do.
    ///
    /// - Throws: ``ChappieAuth/CredentialStoreError/unsafeFile(_:remedy:)`` if other users have access to the file, and
    ///   ``ChappieAuth/CredentialStoreError/failed(_:)`` for other failures.
    public static func file(_ path: String) throws(CredentialStoreError) -> ChappieSealingKeys {
        guard !path.utf8.contains(0) else { throw .failed("the path of the sealing keys has a NUL character") }
        let file: Descriptor
        do {
            file = try Descriptor(path, .readOnly, .nonBlocking)
        } catch {
            throw .failed("the sealing keys in \(path) can't be opened: \(error)")
        }
        try SafeFile.check(SafeFile.status(of: file, path), for: .sealingKeys, path: path)
        var bytes = try SafeFile.contents(of: file, path, limit: fileLimit)
        defer { CryptoLibrary.wipe(&bytes) }
        guard bytes.count <= fileLimit else { throw .failed("\(path) has more than \(fileLimit) bytes") }
        return try ChappieSealingKeys(lines: String(decoding: bytes, as: UTF8.self), of: path)
    }

    /// Reads the keys in an environment variable, separated by line breaks or spaces, in base64url. The first is the
    /// current one. Prefer a file, because a program's environment is visible to more programs.
    ///
    /// - Parameter name: The variable. Default: ``variable``.
    /// - Throws: ``ChappieAuth/CredentialStoreError/failed(_:)`` if the variable is missing or has no keys.
    public static func environment(
        _ name: String = Self.variable
    ) throws(CredentialStoreError) -> ChappieSealingKeys {
        guard let text = ProcessInfo.processInfo.environment[name] else {
            throw .failed("the environment variable \(name) is not set")
        }
        return try ChappieSealingKeys(lines: text, of: name)
    }

    private init(lines: String, of place: String) throws(CredentialStoreError) {
        var keys: [Secret] = []
        for line in lines.split(whereSeparator: \.isWhitespace) {
            guard let key = Base64URL.decode(String(line)), key.count == CryptoLibrary.keyCount else {
                throw .failed("key \(keys.count + 1) in \(place) is not 32 bytes in base64url")
            }
            keys.append(Secret(key))
        }
        guard let current = keys.first else { throw .failed("\(place) has no sealing key") }
        try self.init(current: current, earlier: Array(keys.dropFirst()))
    }
}

// MARK: Sealing

@_spi(ChappieInternals) extension ChappieSealingKeys {
    private static let version: UInt8 = 1

    /// The number of the current key, which does not reveal it.
    public var currentID: Int { keys[0].id }

    /// Encrypts `secret` for `slot` with the current key. The result opens only for this slot and this purpose.
    ///
    /// - Throws: `failed` if the crypto library fails.
    public func seal(
        _ secret: Secret, for slot: CredentialSlot, as purpose: String
    ) throws(CredentialStoreError) -> [UInt8] {
        var bytes = secret.withBytes(Array.init)
        defer { CryptoLibrary.wipe(&bytes) }
        return try [Self.version] + Self.sealer(keys[0].key, slot).seal(bytes, for: Self.context(slot, purpose))
    }

    /// Decrypts what ``seal(_:for:as:)`` made with the key of this number.
    ///
    /// - Throws: `failed` if the key is not among these keys, `tooNew`, and `corrupt` for anything else that does not
    ///   open.
    public func open(
        _ sealed: [UInt8], sealedBy id: Int, for slot: CredentialSlot, as purpose: String
    ) throws(CredentialStoreError) -> Secret {
        guard let key = keys.first(where: { $0.id == id })?.key else {
            throw .failed("the stored sign-in was encrypted with the key \(id), which this program does not have")
        }
        if let version = sealed.first, version > Self.version {
            throw .tooNew("The stored sign-in", found: Int(version), known: Int(Self.version))
        }
        guard sealed.first == Self.version,
            var bytes = try Self.sealer(key, slot).open(Array(sealed.dropFirst()), for: Self.context(slot, purpose))
        else { throw .corrupt("it was changed, or it belongs to another user") }
        defer { CryptoLibrary.wipe(&bytes) }
        return Secret(bytes)
    }

    /// Creates the sealer of a slot. Each slot has a separate key, because a key can be used for 2³² records.
    private static func sealer(_ key: Secret, _ slot: CredentialSlot) throws(CredentialStoreError) -> RecordSealer {
        guard let derived = CryptoLibrary.KeyedHash(key)?.code(of: context(slot, "chappie slot")) else {
            throw .failed("\(CryptoLibrary.name) can't compute an HMAC")
        }
        return try RecordSealer(Secret(derived))
    }

    /// Returns the names of a slot after a purpose, each with its length, so that no two slots have the same bytes.
    private static func context(_ slot: CredentialSlot, _ purpose: String) -> [UInt8] {
        [purpose, slot.service, slot.account, slot.accessGroup, slot.issuer].flatMap { name -> [UInt8] in
            guard let name else { return [0] }
            return [1] + withUnsafeBytes(of: UInt64(name.utf8.count).bigEndian, Array.init) + Array(name.utf8)
        }
    }
}
