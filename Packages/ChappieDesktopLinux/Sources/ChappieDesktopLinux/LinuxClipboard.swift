public import ChappieAuth
import FoundationEssentials

/// Copies text with wl-copy under Wayland, with xclip under X11, and otherwise by asking the terminal (OSC 52).
///
/// A route that fails is followed by the next one. The text travels by standard input, never as an argument.
public struct LinuxClipboard: Clipboard {
    private let environment: DesktopEnvironment

    /// - Parameter environment: Where it looks for a display, for programs and for a terminal. Default: this process's.
    public init(environment: DesktopEnvironment = .current) { self.environment = environment }

    /// Copies `text`.
    ///
    /// - Returns: `.copied` when wl-copy or xclip holds the text now; `.requested` when the terminal was asked, which
    ///   does not answer.
    /// - Throws: ``DesktopError`` when there is none of the three, or none took the text. A program that has not taken
    ///   it within two seconds counts as failed. A terminal is not asked for more than 74,994 bytes.
    public func copy(_ text: String) async throws(DesktopError) -> ClipboardOutcome {
        for route in ClipboardRoute.routes(in: environment) {
            switch route {
            case .program(let path, let arguments):
                let process = ChildProcess(
                    path: path, arguments: arguments, environment: environment.variables, input: Array(text.utf8),
                    limit: .seconds(2), atLimit: .kill)
                if case .exited(code: 0, _) = await environment.run(process) { return .copied }
            case .terminal(let insideTmux):
                if let sequence = OSC52.sequence(copying: text, insideTmux: insideTmux),
                    await environment.writeToTerminal(sequence)
                {
                    return .requested
                }
            }
        }
        throw ClipboardRoute.failure(in: environment)
    }
}

enum ClipboardRoute: Hashable {
    case program(path: String, arguments: [String])
    case terminal(insideTmux: Bool)

    /// The routes that are open here, the surest first.
    static func routes(in environment: DesktopEnvironment) -> [ClipboardRoute] {
        var routes: [ClipboardRoute] = []
        if environment["WAYLAND_DISPLAY"] != nil, let path = environment.executable("wl-copy") {
            // Without a type wl-copy would run another program to guess it.
            routes.append(.program(path: path, arguments: ["--type", "text/plain"]))
        }
        if environment["DISPLAY"] != nil, let path = environment.executable("xclip") {
            routes.append(.program(path: path, arguments: ["-selection", "clipboard", "-in"]))
        }
        // A terminal that does not know the sequence shows it: the console and everything that calls itself dumb.
        if let terminal = environment["TERM"], terminal != "dumb", terminal != "linux" {
            routes.append(.terminal(insideTmux: environment["TMUX"] != nil))
        }
        return routes
    }

    /// The sentence for a person when no route led anywhere.
    static func failure(in environment: DesktopEnvironment) -> DesktopError {
        if environment["WAYLAND_DISPLAY"] != nil, environment.executable("wl-copy") == nil {
            return DesktopError(
                "Nothing was copied: wl-copy is missing. Install the package wl-clipboard, or copy by hand.")
        }
        if environment["DISPLAY"] != nil, environment.executable("xclip") == nil {
            return DesktopError("Nothing was copied: xclip is missing. Install the package xclip, or copy by hand.")
        }
        let reason =
            environment.hasDisplay
            ? "the display's clipboard can't be reached" : "there is neither a display nor a terminal with a clipboard"
        return DesktopError("Nothing was copied: \(reason). Copy by hand.")
    }
}

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
