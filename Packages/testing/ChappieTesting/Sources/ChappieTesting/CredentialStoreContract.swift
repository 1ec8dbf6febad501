public import ChappieAuth

/// The behaviour of every ``CredentialStore``, as a list of cases that any testing framework can run.
///
/// ```swift
/// @Test(arguments: CredentialStoreContract.cases)
/// func keepsTheContract(_ contractCase: CredentialStoreContract.Case) async throws {
///     try await contractCase.run(MyStore())
/// }
/// ```
/// The cases write to services that begin with `com.chappie.contract`, and delete what they wrote.
public enum CredentialStoreContract {
    /// One requirement for a store.
    public struct Case: Sendable, CustomStringConvertible {
        /// The requirement as a fact: `an empty slot gives nil`.
        public let name: String
        let slots: [CredentialSlot]
        let check: @Sendable (_ store: any CredentialStore, _ slots: [CredentialSlot]) async throws -> Void

        /// Runs the case with a store.
        ///
        /// - Throws: ``ContractViolation`` if the requirement is not met, and any error that the store should not have
        ///   thrown.
        public func run(_ store: any CredentialStore) async throws {
            for slot in slots { try await store.delete(slot) }
            do {
                try await check(store, slots)
            } catch {
                for slot in slots { try? await store.delete(slot) }
                throw error
            }
            for slot in slots { try await store.delete(slot) }
        }

        /// The name.
        public var description: String { name }
    }

    /// Every case.
    public static let cases: [Case] = [
        Case(name: "a deleted secret is gone; deleting nothing is no error", slots: [slot("delete")]) { store, slots in
            try await store.save(Secret("to be deleted"), in: slots[0])
            for _ in 0..<2 {
                try await store.delete(slots[0])
                try await expect(nil, in: slots[0], of: store)
            }
        },
        Case(name: "saving again replaces, also by something shorter", slots: [slot("replace")]) { store, slots in
            try await store.save(Secret("the first and longer one"), in: slots[0])
            try await store.save(Secret("second"), in: slots[0])
            try await expect(Secret("second"), in: slots[0], of: store)
        },
        Case(name: "any text and bytes come back as they were, up to 64 KiB", slots: [slot("bytes")]) { store, slots in
            for bytes in samples {
                try await store.save(Secret(bytes), in: slots[0])
                try await expect(Secret(bytes), in: slots[0], of: store)
            }
        },
        Case(name: "asking whether it can save changes nothing", slots: [slot("prepare")]) { store, slots in
            for secret in [nil, Secret("kept")] {
                if let secret { try await store.save(secret, in: slots[0]) }
                try await store.prepareToSave(in: slots[0])
                try await expect(secret, in: slots[0], of: store)
            }
        },
        bleeding("services", slot("service", service: "one"), slot("service", service: "two")),
        bleeding("accounts", slot("account-one"), slot("account-two")),
        bleeding("accounts that differ in case", slot("account-case"), slot("Account-Case")),
        bleeding("access groups", slot("group", group: "TEAM.one"), slot("group", group: "TEAM.two")),
        bleeding("an issuer and none", slot("issuer-or-none", issuer: "http://127.0.0.1:1"), slot("issuer-or-none")),
        bleeding("an access group and none", slot("group-or-none", group: "TEAM.one"), slot("group-or-none")),
        bleeding(
            "names with quotes, spaces and characters of all kinds",
            slot("o'neil \"x\" ; -- *?[ü🔑]"), slot("o'neil \"x\" ; -- *?[ü🔒]")),
        Case(
            name: "saves at the same time in different slots all count", slots: (0..<8).map { slot("parallel-\($0)") }
        ) { store, slots in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for (index, slot) in slots.enumerated() {
                    group.addTask { try await store.save(Secret("secret \(index)"), in: slot) }
                }
                try await group.waitForAll()
            }
            for (index, slot) in slots.enumerated() { try await expect(Secret("secret \(index)"), in: slot, of: store) }
        },
        Case(name: "of saves at the same time in one slot one wins whole", slots: [slot("race")]) { store, slots in
            let secrets = (0..<8).map { Secret([UInt8](repeating: UInt8($0), count: 4096)) }
            try await withThrowingTaskGroup(of: Void.self) { group in
                // A store may refuse a save if its read-back finds another save. It may not mix two saves.
                for secret in secrets {
                    group.addTask {
                        do { try await store.save(secret, in: slots[0]) } catch CredentialStoreError.notVerified {}
                    }
                }
                try await group.waitForAll()
            }
            let stored = try await store.load(slots[0])
            try require(
                secrets.contains { $0 == stored }, "After eight saves at once the slot holds none of the eight.")
        },
    ]

    private static let samples: [[UInt8]] = [
        Array(#"{"version":1,"ünï":"„Grüße“ 🔑","quote":"\"\\\n"}"#.utf8), Array("ends with a line break\n".utf8),
        [0x00], [0x0A], [0xFF, 0xFE, 0x00, 0x80], Array(0...255),
        (0..<(64 << 10)).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) },
    ]

    private static func slot(
        _ account: String, service: String? = nil, group: String? = nil, issuer: String? = nil
    ) -> CredentialSlot {
        CredentialSlot(
            service: ["com.chappie.contract", service].compactMap(\.self).joined(separator: "."), account: account,
            accessGroup: group, issuer: issuer)
    }

    private static func bleeding(_ what: String, _ one: CredentialSlot, _ two: CredentialSlot) -> Case {
        Case(name: "slots don't bleed: \(what)", slots: [one, two]) { store, slots in
            try await store.save(Secret("one"), in: slots[0])
            try await expect(nil, in: slots[1], of: store)
            try await store.save(Secret("two"), in: slots[1])
            try await expect(Secret("one"), in: slots[0], of: store)
            try await store.delete(slots[1])
            try await expect(Secret("one"), in: slots[0], of: store)
            try await expect(nil, in: slots[1], of: store)
        }
    }

    private static func expect(_ expected: Secret?, in slot: CredentialSlot, of store: any CredentialStore) async throws
    {
        let stored = try await store.load(slot)
        try require(
            stored == expected,
            "The slot holds \(description(of: stored)) where \(description(of: expected)) was expected.")
    }

    private static func description(of secret: Secret?) -> String {
        secret.map { "a secret of \($0.count) bytes" } ?? "nothing"
    }
}
