public import ChappieAuth
import FoundationEssentials

/// Copies text with wl-copy under Wayland, with xclip under X11, and otherwise through the terminal (OSC 52).
///
/// If one way fails, the next one is tried. A program gets the text on its standard input, never as an argument.
public struct LinuxClipboard: Clipboard {
    /// The variable of each display, and its program. Without a type wl-copy would run another program to guess it.
    private static let programs = [
        (display: "WAYLAND_DISPLAY", name: "wl-copy", arguments: ["--type", "text/plain"], package: "wl-clipboard"),
        (display: "DISPLAY", name: "xclip", arguments: ["-selection", "clipboard", "-in"], package: "xclip"),
    ]

    private let environment: DesktopEnvironment

    /// - Parameter environment: The environment with the display, the programs and the terminal. Default: this
    ///   process's.
    public init(environment: DesktopEnvironment = .current) { self.environment = environment }

    /// Copies `text`.
    ///
    /// - Returns: `.copied` if wl-copy or xclip now holds the text; `.requested` if the terminal was asked, which does
    ///   not answer.
    /// - Throws: ``DesktopError`` if all three are missing, or none took the text. A program that has not taken the
    ///   text within two seconds has failed. A text of more than 74,994 bytes is not sent to a terminal.
    public func copy(_ text: String) async throws(DesktopError) -> ClipboardOutcome {
        var missing: String?
        for program in Self.programs where environment[program.display] != nil {
            guard let path = environment.executable(program.name) else {
                missing =
                    missing ?? "\(program.name) is missing. Install the package \(program.package), or copy by hand."
                continue
            }
            let process = ChildProcess(
                path: path, arguments: program.arguments, environment: environment.variables, input: Array(text.utf8),
                limit: .seconds(2), atLimit: .kill)
            if case .exited(code: 0, _) = await environment.run(process) { return .copied }
        }
        // A terminal that does not know the sequence shows it. The console and every terminal named "dumb" do so.
        if let terminal = environment["TERM"], terminal != "dumb", terminal != "linux",
            let sequence = OSC52.sequence(copying: text, insideTmux: environment["TMUX"] != nil),
            await environment.writeToTerminal(sequence)
        {
            return .requested
        }
        let reason =
            environment.hasDisplay
            ? "the display's clipboard can't be reached" : "there is neither a display nor a terminal with a clipboard"
        throw DesktopError("Nothing was copied: \(missing ?? "\(reason). Copy by hand.")")
    }
}

/// The terminal's clipboard: "Manipulate Selection Data" of xterm's control sequences.
///
/// <https://invisible-island.net/xterm/ctlseqs/ctlseqs.html#h2-Operating-System-Commands>
enum OSC52 {
    /// The bytes that ask a terminal to put `text` on its clipboard; `nil` if the text is too long: more than 100,000
    /// bytes in Base64, a common limit of terminals.
    ///
    /// - Parameter insideTmux: wraps the sequence so that tmux passes it on to its own terminal; by default tmux
    ///   ignores the sequence if a program inside of it sends it.
    static func sequence(copying text: String, insideTmux: Bool) -> [UInt8]? {
        let bytes = Data(text.utf8)
        guard bytes.count <= 74_994 else { return nil }
        let escape = "\u{1B}"
        let sequence = "\(escape)]52;c;\(bytes.base64EncodedString())\u{7}"
        guard insideTmux else { return Array(sequence.utf8) }
        // tmux(1), "allow-passthrough": each escape of the inner sequence is doubled.
        let doubled = sequence.replacing(escape, with: escape + escape)
        return Array("\(escape)Ptmux;\(doubled)\(escape)\\".utf8)
    }
}
