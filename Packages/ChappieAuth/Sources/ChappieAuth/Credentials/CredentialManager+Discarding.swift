extension CredentialManager {
    /// Signs out of a credential that could not be read: removes it unread, so that a person who has just refused to unlock
    /// it is not asked for that again. The server is not told, since nobody knows of what. Sessions of this manager become
    /// `signedOut`.
    ///
    /// - Throws: ``CredentialStoreError`` when the stored credential could not be deleted. Not an error: an empty slot.
    public func discardUnread() async throws(CredentialStoreError) {
        let epoch = beginSignOut().epoch
        let hold = await lockForChange()
        defer { withExtendedLifetime(hold) {} }
        let failure: CredentialStoreError? = await withStore {
            // Somebody may have signed in meanwhile, and what is stored is theirs.
            guard settledEpoch < epoch, heldNow == nil else { return nil }
            phase = .absent
            if let error = await deleteStored() { return error }
            settledEpoch = max(settledEpoch, epoch)
            return nil
        }
        if let failure { throw failure }
    }
}
