@_spi(ChappieInternals) public import ChappieAuth

/// The four calls of Apple's keychain that a ``KeychainCredentialStore`` makes, and the system's notice of an unlock.
///
/// On Apple's platforms, `SecItemCalls.system` is the keychain of the device. In tests, `InMemoryKeychain` of
/// ChappieTesting replaces it. The calls block.
///
/// <https://developer.apple.com/documentation/security/keychain-items>
public struct SecItemCalls: Sendable {
    /// `SecItemAdd`, which adds the item unless there is one with the same names.
    public var add: @Sendable (KeychainQuery, KeychainAttributes) -> KeychainStatus
    /// `SecItemUpdate`, which changes every item that is found.
    public var update: @Sendable (KeychainQuery, KeychainAttributes) -> KeychainStatus
    /// `SecItemCopyMatching`, which returns the value of one item that is found.
    public var copyMatching: @Sendable (KeychainQuery) -> (status: KeychainStatus, value: Secret?)
    /// `SecItemDelete`, which removes every item that is found.
    public var delete: @Sendable (KeychainQuery) -> KeychainStatus
    /// Returns a stream with an element each time the device has been unlocked.
    public var unlocks: @Sendable () -> AsyncStream<Void>

    /// Creates calls that replace the system's.
    public init(
        add: @escaping @Sendable (KeychainQuery, KeychainAttributes) -> KeychainStatus,
        update: @escaping @Sendable (KeychainQuery, KeychainAttributes) -> KeychainStatus,
        copyMatching: @escaping @Sendable (KeychainQuery) -> (status: KeychainStatus, value: Secret?),
        delete: @escaping @Sendable (KeychainQuery) -> KeychainStatus,
        unlocks: @escaping @Sendable () -> AsyncStream<Void> = { AsyncStream { $0.finish() } }
    ) {
        self.add = add
        self.update = update
        self.copyMatching = copyMatching
        self.delete = delete
        self.unlocks = unlocks
    }

    /// Changes the item, or adds it. Another process may add it in the meantime. There is never a second item.
    func write(_ attributes: KeychainAttributes, to query: KeychainQuery) -> KeychainStatus {
        let status = update(query, attributes)
        if status == .decode { _ = delete(query) }
        guard [.itemNotFound, .decode].contains(status) else { return status }
        let added = add(query, attributes)
        return added == .duplicateItem ? update(query, attributes) : added
    }
}

/// The names of a generic password in the data protection keychain of this device, which iCloud never synchronizes.
///
/// The service, the account and the access group are the item's key. No keychain has two items with the same three
/// values.
public struct KeychainQuery: Sendable, Hashable {
    /// The value of `kSecAttrService`.
    public let service: String
    /// The value of `kSecAttrAccount`.
    public let account: String
    /// The value of `kSecAttrAccessGroup`. With `nil`, an item is added to the program's first group, and searched for
    /// in all of its groups.
    public let accessGroup: String?
    /// The value of `kSecAttrGeneric` of an added item, and of the items that are found. With `nil` it is not compared.
    public internal(set) var owner: [UInt8]?

    /// The items of a slot.
    enum Part: String {
        case credential, lease, mark, note, registration
    }

    /// Creates the query for an item of `slot`.
    ///
    /// An item has no key for the issuer, and a search without a group finds the items of every group. For this reason
    /// the service contains both: `com.chappie.sdk|issuer=…|group=…`, in which `%` and `|` of a name are escaped. The
    /// items next to the credential have `|part=…` as well. A program that looks for the item of a shared credential by
    /// itself has to use this service.
    ///
    /// - Throws: ``CredentialStoreError/failed(_:)`` if a name contains a NUL character.
    init(_ slot: CredentialSlot, _ part: Part = .credential) throws(CredentialStoreError) {
        try slot.checkNames()
        let issuer = slot.issuer.map { "|issuer=" + Self.escaped($0) } ?? ""
        let group = slot.accessGroup.map { "|group=" + Self.escaped($0) } ?? ""
        let suffix = part == .credential ? "" : "|part=" + part.rawValue
        service = Self.escaped(slot.service) + issuer + group + suffix
        account = slot.account
        accessGroup = slot.accessGroup
    }

    /// Escapes `%` and `|`. Works on scalars and not on characters, because a mark that follows `|` would form another
    /// character with it.
    private static func escaped(_ name: String) -> String {
        name.unicodeScalars.map { scalar in
            switch scalar {
            case "%": "%25"
            case "|": "%7C"
            default: String(scalar)
            }
        }.joined()
    }
}

/// The attributes that a call stores with an item.
public struct KeychainAttributes: Sendable, Equatable {
    /// The value of `kSecAttrLabel`, which is the item's name in Keychain Access.
    public let label: String
    /// The value of `kSecAttrAccessible`.
    public let accessibility: ChappieKeychainAccessibility
    /// The value of `kSecValueData`. `nil` leaves an item's value unchanged.
    public let value: Secret?
}

/// A result code of Apple's Security framework (`OSStatus`).
///
/// <https://developer.apple.com/documentation/security/security-framework-result-codes>
public struct KeychainStatus: RawRepresentable, Sendable, Hashable {
    /// Apple's number.
    public let rawValue: Int32

    /// Creates a status with this number.
    public init(rawValue: Int32) { self.rawValue = rawValue }

    /// `errSecSuccess`.
    public static let success = Self(rawValue: 0)
    /// `errSecUserCanceled`.
    public static let userCanceled = Self(rawValue: -128)
    /// `errSecNotAvailable`, which means that no keychain is available.
    public static let notAvailable = Self(rawValue: -25_291)
    /// `errSecAuthFailed`.
    public static let authFailed = Self(rawValue: -25_293)
    /// `errSecDuplicateItem`.
    public static let duplicateItem = Self(rawValue: -25_299)
    /// `errSecItemNotFound`.
    public static let itemNotFound = Self(rawValue: -25_300)
    /// `errSecInteractionNotAllowed`, which means that the device is locked.
    public static let interactionNotAllowed = Self(rawValue: -25_308)
    /// `errSecInDarkWake`, which means that the Mac works with its screen off and can't ask the user.
    public static let inDarkWake = Self(rawValue: -25_320)
    /// `errSecDecode`.
    public static let decode = Self(rawValue: -26_275)
    /// `errSecMissingEntitlement`.
    public static let missingEntitlement = Self(rawValue: -34_018)

    /// Throws the reason why a call failed, unless it succeeded or its status is allowed.
    func check(
        _ query: KeychainQuery, _ accessibility: ChappieKeychainAccessibility,
        allowing allowed: Set<KeychainStatus> = []
    ) throws(CredentialStoreError) {
        guard !allowed.contains(self) else { return }
        switch self {
        case .success: return
        case .interactionNotAllowed, .inDarkWake:
            throw .locked(
                accessibility == .whenUnlockedThisDeviceOnly
                    ? "the device is locked" : "the device has not been unlocked since it was started")
        case .missingEntitlement:
            throw .denied(
                query.accessGroup.map { "this program has no entitlement for the access group \($0)" }
                    ?? "this program is not signed with an application identifier; without one, use `.encryptedFile`")
        case .userCanceled: throw .denied("the user cancelled the system's question")
        case .authFailed: throw .denied("the system could not verify the user")
        case .notAvailable: throw .absent("the system has none for this session")
        case .decode: throw .corrupt("the keychain can't decode its item")
        case .itemNotFound: throw .failed("another program removed the item while it was being stored")
        default: throw .failed("the keychain answered with status \(rawValue)")
        }
    }
}
