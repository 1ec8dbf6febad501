public import ChappieAuth

/// The behaviour of every ``RegistrationStore``, as a list of cases that any testing framework can run, each on an empty
/// store.
///
/// ```swift
/// @Test(arguments: RegistrationStoreContract.cases)
/// func keepsTheContract(_ demand: RegistrationStoreContract.Case) async throws {
///     try await demand.run(MyStore())
/// }
/// ```
public enum RegistrationStoreContract {
    /// One requirement for a store.
    public struct Case: Sendable, CustomStringConvertible {
        /// The requirement as a fact: `a slot without a registration gives nil`.
        public let name: String
        let check: @Sendable (_ store: any RegistrationStore) async throws -> Void

        /// Runs the case with an empty store.
        ///
        /// - Throws: ``ContractViolation`` if the requirement is not met, and any error that the store should not have
        ///   thrown.
        public func run(_ store: any RegistrationStore) async throws { try await check(store) }

        /// The name.
        public var description: String { name }
    }

    /// Every case.
    public static let cases: [Case] = [
        Case(name: "a slot without a registration gives nil") { store in
            try await expect(nil, in: CredentialSlot(), of: store)
        },
        Case(name: "a registration comes back whole, with and without what may be missing") { store in
            for registration in [
                ChappieClientRegistration(clientID: "oaiapp_1-A", appName: "Notes"),
                ChappieClientRegistration(
                    clientID: "2", subject: "user-ö|1", email: "ada+notes@example.com", appName: "Über \"Notes\" 👩‍💻"),
                ChappieClientRegistration(clientID: String(repeating: "a", count: 200), subject: "", appName: "N"),
            ] {
                try await store.save(registration, for: CredentialSlot())
                try await expect(registration, in: CredentialSlot(), of: store)
            }
        },
        Case(name: "a registration can be removed, and its neighbour stays") { store in
            let other = CredentialSlot(account: "other")
            try await store.save(nil, for: CredentialSlot())
            for slot in [CredentialSlot(), other] { try await store.save(numbered(1), for: slot) }
            try await store.save(nil, for: CredentialSlot())
            try await expect(nil, in: CredentialSlot(), of: store)
            try await expect(numbered(1), in: other, of: store)
            try await store.save(nil, for: other)
            try await expect(nil, in: other, of: store)
        },
        Case(name: "slots that differ in one name are apart") { store in
            let slots = [
                CredentialSlot(), CredentialSlot(service: "other"), CredentialSlot(account: "other"),
                CredentialSlot(account: "Other"), CredentialSlot(accessGroup: "other"), CredentialSlot(issuer: "other"),
                CredentialSlot(issuer: ""),
            ]
            for (index, slot) in slots.enumerated() { try await store.save(numbered(index), for: slot) }
            for (index, slot) in slots.enumerated() { try await expect(numbered(index), in: slot, of: store) }
        },
        Case(name: "registrations that are saved at once are all kept") { store in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for index in 0..<10 {
                    group.addTask { try await store.save(numbered(index), for: CredentialSlot(account: "\(index)")) }
                }
                try await group.waitForAll()
            }
            for index in 0..<10 {
                try await expect(numbered(index), in: CredentialSlot(account: "\(index)"), of: store)
            }
        },
        Case(name: "the id of the machine is a random UUID in lower case, and stays") { store in
            let id = try await store.hostID()
            let form = /urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}/
            try require(id.wholeMatch(of: form) != nil, "The id of the machine is '\(id)'.")
            try await store.save(numbered(1), for: CredentialSlot())
            let later = try await store.hostID()
            try require(later == id, "The id of the machine was '\(id)' and is '\(later)'.")
        },
        Case(name: "callers who ask at once get the same id of the machine") { store in
            let ids = try await withThrowingTaskGroup(of: String.self) { group in
                for _ in 0..<10 { group.addTask { try await store.hostID() } }
                return try await group.reduce(into: Set()) { $0.insert($1) }
            }
            try require(ids.count == 1, "They got \(ids.sorted()).")
        },
    ]

    private static func numbered(_ number: Int) -> ChappieClientRegistration {
        ChappieClientRegistration(clientID: "id-\(number)", appName: "Notes")
    }

    private static func expect(
        _ registration: ChappieClientRegistration?, in slot: CredentialSlot, of store: any RegistrationStore
    ) async throws {
        let found = try await store.registration(for: slot)
        try require(
            found == registration,
            "The slot \(slot) has \(found.map { "\($0)" } ?? "nothing"), not \(registration.map { "\($0)" } ?? "nothing")."
        )
    }
}
