import ChappieAuth

/// The digest that ties an encrypted file to its slot: the file's name is made of it, and its tag covers it, so that a
/// file that was moved under another slot's name does not open.
///
/// A digest and not the names: an account may be a person's address, and may hold any character a path can't.
enum SlotDigest {
    private static let label = "chappie credential slot 1"

    static func make(for slot: CredentialSlot) throws(CredentialStoreError) -> [UInt8] {
        var bytes = Array(label.utf8)
        // With their lengths, so that no two slots give the same bytes.
        for name in [slot.service, slot.account] {
            bytes.append(name.utf8.count, count: 7)
            bytes += name.utf8
        }
        if let group = slot.accessGroup {
            bytes.append(1)
            bytes += group.utf8
        } else {
            bytes.append(0)
        }
        return try SHA256.digest(of: bytes)
    }

    /// 64 hexadecimal digits and `.credential`.
    static func fileName(for digest: [UInt8]) -> String { Hexadecimal.text(of: digest) + ".credential" }
}
