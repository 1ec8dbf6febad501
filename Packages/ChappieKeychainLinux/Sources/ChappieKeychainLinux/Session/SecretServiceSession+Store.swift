import CSecret
import ChappieAuth

extension SecretServiceSession {
    func load(_ slot: CredentialSlot) throws(CredentialStoreError) -> Secret? {
        guard let newest = try findUnlocking(slot).first else { return nil }
        guard let value = secret_item_get_secret(newest.pointer) else {
            throw .corrupt("the keyring has an item for it, but its secret can't be decoded")
        }
        defer { secret_value_unref(UnsafeMutableRawPointer(value)) }
        var count = 0
        let bytes = secret_value_get(value, &count)
        return Secret([UInt8](UnsafeRawBufferPointer(start: bytes, count: count)))
    }

    func save(_ secret: Secret, in slot: CredentialSlot) throws(CredentialStoreError) {
        try write(secret, in: slot)
        guard try load(slot) == secret else { throw .notVerified }
    }

    func delete(_ slot: CredentialSlot) throws(CredentialStoreError) {
        let items = try findUnlocking(slot)
        shared.forgetItem()
        for item in items { try delete(item) }
    }

    /// Replaces the value of the slot's item, or makes one.
    ///
    /// Not with the service's own "replace": it replaces whatever has *at least* the same attributes, so a slot without
    /// an access group would overwrite one that has a group.
    private func write(_ secret: Secret, in slot: CredentialSlot) throws(CredentialStoreError) {
        let contentType = secret.withBytes { CredentialItem.contentType(of: $0) }
        let value = secret.withBytes { bytes in
            bytes.withMemoryRebound(to: CChar.self) {
                secret_value_new($0.baseAddress, $0.count, contentType)
            }
        }
        guard let value else { throw .failed("there is no memory for the secret") }
        defer { secret_value_unref(UnsafeMutableRawPointer(value)) }

        // Whatever is wrong with an item that was found earlier, the search finds out.
        if let known = shared.item(of: slot), (try? set(value, ofItemAt: known)) != nil { return }
        let items = try findUnlocking(slot)
        guard let newest = items.first.flatMap(Self.path) else { return try create(value, in: slot) }
        try set(value, ofItemAt: newest)
        for surplus in items.dropFirst() { try delete(surplus) }
    }

    private func set(_ value: OpaquePointer, ofItemAt path: String) throws(CredentialStoreError) {
        let secret = try encoded(value)
        _ = try working { () throws(LibraryFault) in
            try connection.call(
                "SetSecret", of: "org.freedesktop.Secret.Item", at: path, in: KeyringPrompt.service, [.value(secret)])
        }
    }

    private func create(_ value: OpaquePointer, in slot: CredentialSlot) throws(CredentialStoreError) {
        let collection = try unlockedDefaultCollection()
        guard let path = Self.path(of: collection) else { throw .failed("the default keyring has no path") }
        let secret = try encoded(value)
        let properties: [String: BusArgument] = [
            "org.freedesktop.Secret.Item.Label": .text(CredentialItem.label(of: slot)),
            "org.freedesktop.Secret.Item.Attributes": .texts(CredentialItem.attributes(of: slot)),
        ]
        let arguments: [BusArgument] = [
            .properties(properties), .value(secret), .bool(false),
        ]
        try mayPrompt { () throws(CredentialStoreError) in
            let answer = try working { () throws(LibraryFault) in
                try connection.call(
                    "CreateItem", of: "org.freedesktop.Secret.Collection", at: path, in: KeyringPrompt.service,
                    arguments)
            }
            try run(promptIn: answer.member(1, ofTuple: "(oo)"))
        }
    }

    /// The secret as the session of this connection carries it.
    private func encoded(_ value: OpaquePointer) throws(CredentialStoreError) -> BusValue {
        guard let encoded = secret_service_encode_dbus_secret(service.pointer, value) else {
            throw .failed("the secret can't be encoded for the keyring service")
        }
        return BusValue(retaining: encoded)
    }

    private func delete(_ item: LibraryObject) throws(CredentialStoreError) {
        guard let path = Self.path(of: item) else { return }
        try mayPrompt { () throws(CredentialStoreError) in
            let answer: BusValue
            do throws(LibraryFault) {
                answer = try connection.call(
                    "Delete", of: "org.freedesktop.Secret.Item", at: path, in: KeyringPrompt.service)
            } catch {
                // Somebody else was faster.
                if error.saysThereIsNoSuchItem { return }
                throw error.meaning(at: .working, deadline: limits.work)
            }
            try run(promptIn: answer.member(0, ofTuple: "(o)"))
        }
    }
}
