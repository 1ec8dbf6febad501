import FoundationEssentials

/// The terminal's clipboard: "Manipulate Selection Data" of xterm's control sequences.
///
/// <https://invisible-island.net/xterm/ctlseqs/ctlseqs.html#h2-Operating-System-Commands>
enum OSC52 {
    /// As much text as stays below 100,000 bytes in Base64, where terminals commonly draw the line.
    static let limit = 74_994

    /// The bytes that ask a terminal to put `text` on its clipboard; `nil` when it is too long for that.
    ///
    /// - Parameter insideTmux: wraps the sequence so that tmux hands it on to the terminal around it; by default tmux
    ///   ignores the sequence from the programs inside of it.
    static func sequence(copying text: String, insideTmux: Bool) -> [UInt8]? {
        let bytes = Data(text.utf8)
        guard bytes.count <= limit else { return nil }
        let escape = "\u{1B}"
        let sequence = "\(escape)]52;c;\(bytes.base64EncodedString())\u{7}"
        guard insideTmux else { return Array(sequence.utf8) }
        // tmux(1), "allow-passthrough": each escape of the inner sequence is doubled.
        let doubled = sequence.replacing(escape, with: escape + escape)
        return Array("\(escape)Ptmux;\(doubled)\(escape)\\".utf8)
    }
}
