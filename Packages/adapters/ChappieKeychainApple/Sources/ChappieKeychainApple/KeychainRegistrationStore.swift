@_spi(ChappieInternals) public import ChappieAuth
@_spi(ChappieInternals) import ChappieCore

/// A ``RegistrationStore`` in the keychain, with an item for each slot, in the slot's access group. The programs that
/// share a credential also share its registration.
///
/// An item that can't be read is an error and stays unchanged.
public struct KeychainRegistrationStore: RegistrationStore {
    private static let deadline = Duration.seconds(10)
    private static let accessibility = ChappieKeychainAccessibility.afterFirstUnlockThisDeviceOnly
    private let accessGroup: String?
    private let calls: SecItemCalls
    private let worker = StoreWorker(label: "chappie.registrations")

    /// Creates a store that uses these calls, for tests.
    ///
    /// - Parameters:
    ///   - accessGroup: The access group of the id of this machine.
    ///   - calls: The keychain.
    public init(accessGroup: String? = nil, calls: SecItemCalls) {
        self.accessGroup = accessGroup
        self.calls = calls
    }

    /// Returns the registration of `slot`.
    ///
    /// - Throws: `corrupt` for an item of another form, `locked`, `denied`, `timedOut` or `failed`.
    public func registration(
        for slot: CredentialSlot
    ) async throws(CredentialStoreError) -> ChappieClientRegistration? {
        guard let bytes = try await bytes(KeychainQuery(slot, .registration)) else { return nil }
        guard let registration = try? JSONDecoder().decode(ChappieClientRegistration.self, from: Data(bytes)),
            registration.isWellFormed
        else { throw .corrupt("the keychain's item with the registration of this app can't be read") }
        return registration
    }

    /// Stores the registration of `slot`, or removes it if it is `nil`.
    ///
    /// - Throws: `locked`, `denied`, `timedOut` or `failed`.
    public func save(
        _ registration: ChappieClientRegistration?, for slot: CredentialSlot
    ) async throws(CredentialStoreError) {
        let query = try KeychainQuery(slot, .registration)
        guard let registration else {
            return try await worker.perform(within: Self.deadline) { [calls] _ throws(CredentialStoreError) in
                try calls.delete(query).check(query, Self.accessibility, allowing: [.itemNotFound])
            }
        }
        guard registration.isWellFormed, let bytes = try? JSONEncoder().encode(registration) else {
            throw .failed("the sign-in service gave this app a registration that can't be kept")
        }
        let attributes = Self.attributes(Array(bytes))
        try await worker.perform(within: Self.deadline) { [calls] _ throws(CredentialStoreError) in
            try calls.write(attributes, to: query).check(query, Self.accessibility)
        }
    }

    /// Returns the id, or creates it. Programs that ask at the same time get the same id.
    ///
    /// - Throws: The errors of ``registration(for:)``.
    public func hostID() async throws(CredentialStoreError) -> String {
        let query = try KeychainQuery(
            CredentialSlot(service: "com.chappie.registrations", account: "host", accessGroup: accessGroup),
            .registration)
        let prefix = "urn:uuid:"
        let new = Self.attributes(Array((prefix + UUID().uuidString.lowercased()).utf8))
        try await worker.perform(within: Self.deadline) { [calls] _ throws(CredentialStoreError) in
            try calls.add(query, new).check(query, Self.accessibility, allowing: [.duplicateItem])
        }
        guard let bytes = try await bytes(query), let id = String(validating: bytes, as: UTF8.self),
            id.hasPrefix(prefix), UUID(uuidString: String(id.dropFirst(prefix.count))) != nil
        else { throw .corrupt("the keychain's item with the id of this machine is not a UUID") }
        return id
    }

    private func bytes(_ query: KeychainQuery) async throws(CredentialStoreError) -> [UInt8]? {
        try await worker.perform(within: Self.deadline) { [calls] _ throws(CredentialStoreError) in
            let (status, value) = calls.copyMatching(query)
            guard status != .itemNotFound else { return nil }
            try status.check(query, Self.accessibility)
            return value.map { $0.withBytes { Array($0) } } ?? []
        }
    }

    private static func attributes(_ bytes: [UInt8]) -> KeychainAttributes {
        KeychainAttributes(label: "Chappie registration", accessibility: accessibility, value: Secret(bytes))
    }
}
