import ChappieAuth

/// How a slot is written down in a keyring.
enum CredentialItem {
    static let schema = "com.chappie.Credential"
    static let accessGroup = "access-group"
    private static let json = "application/json"
    private static let bytes = "application/octet-stream"

    /// The attributes that are stored with the item and searched for.
    ///
    /// `xdg:schema` is where libsecret keeps the schema's name.
    static func attributes(of slot: CredentialSlot) -> [String: String] {
        var attributes = ["xdg:schema": schema, "service": slot.service, "account": slot.account]
        attributes[accessGroup] = slot.accessGroup
        return attributes
    }

    /// What a person reads in a keyring program.
    static func label(of slot: CredentialSlot) -> String {
        "Chappie credential for \(slot.account) (\(slot.service))"
    }

    /// What kind of bytes a secret is.
    ///
    /// KeePassXC takes this at its word: it keeps JSON as the text of a password, which loses everything that is no text,
    /// and other bytes as an attachment.
    static func contentType(of secret: UnsafeBufferPointer<UInt8>) -> String {
        guard secret.first == UInt8(ascii: "{"), !secret.contains(where: { $0 < 0x20 || $0 == 0x7F }) else {
            return bytes
        }
        // Looks without making a string, which would leave a copy of the secret behind.
        let isInvalid = transcode(
            secret.makeIterator(), from: UTF8.self, to: UTF32.self, stoppingOnError: true, into: { _ in })
        return isInvalid ? bytes : json
    }

    /// Whether an item that a search has found is the slot's own.
    ///
    /// A search finds every item that has *at least* the asked attributes, so a slot without an access group also
    /// finds the items that have one.
    static func isItem(ofGroup group: String?, in slot: CredentialSlot) -> Bool { group == slot.accessGroup }

    /// C strings end at the first NUL, where two different slots would become one.
    static func check(_ slot: CredentialSlot) throws(CredentialStoreError) {
        for text in [slot.service, slot.account, slot.accessGroup ?? ""] where text.utf8.contains(0) {
            throw .failed("the service, account and access group of a credential can't contain a NUL character")
        }
    }
}
