import CSecret
import ChappieAuth

extension SecretServiceSession {
    /// What a search for a slot has found.
    struct Found {
        /// The slot's items that can be read, the last modified first. More than one only when two programs have made
        /// one at the same time.
        var items: [LibraryObject] = []
        /// What may be the slot's and lies in a locked keyring. Locked items don't show their attributes in full, so it
        /// can't be said which slot they belong to.
        var locked: [LibraryObject] = []
    }

    func find(_ slot: CredentialSlot) throws(CredentialStoreError) -> Found {
        let attributes = Self.attributes(of: slot)
        defer { g_hash_table_unref(attributes) }
        let flags = CSSearchFlags(CS_SEARCH_ALL | CS_SEARCH_LOAD_SECRETS)
        let list = try working { () throws(LibraryFault) in
            try LibraryFault.catching {
                secret_service_search_sync(service.pointer, nil, attributes, flags, cancellation.pointer, $0)
            }
        }
        defer { csecret_list_free(list) }

        var found = Found()
        var node = list
        while let current = node {
            node = current.pointee.next
            guard let data = current.pointee.data else { continue }
            let item = LibraryObject(retaining: OpaquePointer(data))
            if secret_item_get_locked(item.pointer) != 0 {
                found.locked.append(item)
            } else if CredentialItem.isItem(ofGroup: Self.accessGroup(of: item), in: slot) {
                found.items.append(item)
            }
        }
        found.items.sort { secret_item_get_modified($0.pointer) > secret_item_get_modified($1.pointer) }
        shared.remember(found.items, of: slot)
        return found
    }

    /// The keyring that new items go to.
    ///
    /// - Throws: `absent` when there is none, `locked`.
    func unlockedDefaultCollection() throws(CredentialStoreError) -> LibraryObject {
        guard let collection = try defaultCollection() else {
            throw .absent("the keyring service has no default keyring; create one, for example with Seahorse")
        }
        guard secret_collection_get_locked(collection.pointer) == 0 else { throw Self.locked }
        return collection
    }

    /// Goes the way of a save up to where it would write.
    ///
    /// - Throws: `absent`, `locked`, and as ``findUnlocking(_:)``.
    func prepareToSave(in slot: CredentialSlot) throws(CredentialStoreError) {
        // An item that is there is replaced where it lies.
        if try findUnlocking(slot).isEmpty { _ = try unlockedDefaultCollection() }
    }

    /// Runs calls that come after the connection, and says in a person's words why one failed.
    func working<Output>(_ body: () throws(LibraryFault) -> Output) throws(CredentialStoreError) -> Output {
        do throws(LibraryFault) {
            return try body()
        } catch {
            throw error.meaning(at: .working, deadline: limits.work)
        }
    }

    static func attributes(of slot: CredentialSlot) -> OpaquePointer? {
        let table = csecret_attributes_new()
        for (name, value) in CredentialItem.attributes(of: slot) { csecret_attributes_set(table, name, value) }
        return table
    }

    static var locked: CredentialStoreError { .locked("it has to be unlocked before it can be used") }

    func defaultCollection() throws(CredentialStoreError) -> LibraryObject? {
        try working { () throws(LibraryFault) in
            try LibraryFault.catching {
                secret_collection_for_alias_sync(
                    service.pointer, "default", CSCollectionFlags(CS_COLLECTION_NONE), cancellation.pointer,
                    $0)
            }
        }.map(LibraryObject.init(owning:))
    }

    private static func accessGroup(of item: LibraryObject) -> String? {
        guard let table = secret_item_get_attributes(item.pointer) else { return nil }
        defer { g_hash_table_unref(table) }
        return csecret_attributes_get(table, CredentialItem.accessGroup).map { String(cString: $0) }
    }
}
