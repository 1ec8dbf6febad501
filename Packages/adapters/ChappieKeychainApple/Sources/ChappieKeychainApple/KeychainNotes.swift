@_spi(ChappieInternals) import ChappieAuth

/// The ``CredentialNotes`` of a credential, as items next to it. A sign-out is noted while the device is locked, so they
/// can be read and written after the first unlock.
struct KeychainNotes: CredentialNotes {
    private static let markLength = 16
    let calls: SecItemCalls

    func setNote(_ note: [UInt8]?, for slot: CredentialSlot) {
        if let note {
            _ = write(note, slot, .note)
        } else if let query = try? KeychainQuery(slot, .note) {
            _ = calls.delete(query)
        }
    }

    func note(for slot: CredentialSlot) -> [UInt8]? { bytes(slot, .note) }

    func announceChange(of slot: CredentialSlot) -> [UInt8]? {
        let mark = (0..<Self.markLength).map { _ in UInt8.random(in: .min ... .max) }
        return write(mark, slot, .mark) ? mark : nil
    }

    func changeMark(for slot: CredentialSlot) -> [UInt8]? { bytes(slot, .mark) }

    private func write(_ bytes: [UInt8], _ slot: CredentialSlot, _ part: KeychainQuery.Part) -> Bool {
        guard let query = try? KeychainQuery(slot, part) else { return false }
        let attributes = KeychainAttributes(
            label: "Chappie note", accessibility: .afterFirstUnlockThisDeviceOnly, value: Secret(bytes))
        return calls.write(attributes, to: query) == .success
    }

    /// Returns the bytes of an item, which another program of the access group may have written.
    private func bytes(_ slot: CredentialSlot, _ part: KeychainQuery.Part) -> [UInt8]? {
        guard let query = try? KeychainQuery(slot, part), let value = calls.copyMatching(query).value,
            (1...KeychainCredentialStore.limit).contains(value.count)
        else { return nil }
        return value.withBytes { Array($0) }
    }
}
