import CSecret
import ChappieAuth

extension SecretServiceSession {
    /// The slot's readable items; when there are none, that is because it has none.
    ///
    /// What is locked and may hide one is unlocked first, where the caller lets the person be asked.
    ///
    /// - Throws: `locked`, and as ``unlock(_:)``.
    func findUnlocking(_ slot: CredentialSlot) throws(CredentialStoreError) -> [LibraryObject] {
        // Twice at most: an item may lie in one locked keyring and, once that turns out to be another slot's, the
        // default keyring may be locked as well.
        var prompts = 0
        while true {
            let found = try find(slot)
            guard found.items.isEmpty else { return found.items }
            let locked = try found.locked.isEmpty ? lockedDefaultCollection() : found.locked
            guard !locked.isEmpty else { return [] }
            guard let limit = limits.prompt, prompts < 2 else { throw Self.locked }
            // What waits for the person has the prompt's limit; what comes after it has the usual one again.
            turn.allow(limit)
            try unlock(locked)
            turn.allow(limits.work)
            prompts += 1
        }
    }

    /// Asks the service to unlock items or keyrings, which may show the person its prompt.
    ///
    /// - Throws: as ``run(_:)``.
    private func unlock(_ objects: [LibraryObject]) throws(CredentialStoreError) {
        let answer = try working { () throws(LibraryFault) in
            try connection.call(
                "Unlock", of: "org.freedesktop.Secret.Service", at: "/org/freedesktop/secrets",
                in: KeyringPrompt.service, [.objects(objects.compactMap(Self.path))])
        }
        try run(promptIn: answer.member(1, ofTuple: "(aoo)"))
    }

    static func path(of object: LibraryObject) -> String? {
        g_dbus_proxy_get_object_path(object.pointer).map { String(cString: $0) }
    }

    /// The default keyring, if it is locked: an empty answer then says nothing.
    private func lockedDefaultCollection() throws(CredentialStoreError) -> [LibraryObject] {
        guard let collection = try defaultCollection(), secret_collection_get_locked(collection.pointer) != 0 else {
            return []
        }
        return [collection]
    }
}
