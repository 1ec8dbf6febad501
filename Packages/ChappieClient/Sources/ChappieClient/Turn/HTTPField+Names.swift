import HTTPTypes

extension HTTPField.Name {
    // The names are valid by RFC 9110's grammar; the fallback only spares a trap.
    private static func known(_ name: String) -> HTTPField.Name { HTTPField.Name(name) ?? .accept }

    static let sessionID = known("session-id")
    static let threadID = known("thread-id")
    static let turnState = known("x-codex-turn-state")
    static let activeLimit = known("x-codex-active-limit")
}
