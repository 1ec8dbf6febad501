extension Secret {
    /// The bytes as text, for the one moment a request or a stored document is put together.
    var text: String { withBytes { String(decoding: $0, as: UTF8.self) } }

    /// A token fit for an authorization header: 1 byte to 64 KiB of visible ASCII; `nil` for anything else.
    init?(token: String?) {
        guard let token = SafeText.token(token, limit: 64 << 10) else { return nil }
        self.init(token)
    }
}
