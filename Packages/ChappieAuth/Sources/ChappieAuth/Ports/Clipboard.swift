/// Puts text where the person can paste it from.
public protocol Clipboard: Sendable {
    /// Copies `text`.
    ///
    /// - Throws: ``DesktopError`` when there is no clipboard to reach.
    func copy(_ text: String) async throws(DesktopError) -> ClipboardOutcome
}

/// What is known after a copy.
public enum ClipboardOutcome: Sendable, Hashable {
    /// The clipboard owner took the text.
    case copied
    /// The terminal was asked (OSC 52), and terminals don't answer: never tell the person that it was copied.
    case requested
}
