public import ChappieAuth
import FoundationEssentials

/// A clipboard that uses wl-copy under Wayland, xclip under X11, and otherwise the terminal (OSC 52).
///
/// If one method fails, the next one is tried. A program receives the text on its standard input, never as an argument.
public struct LinuxClipboard: Clipboard {
    /// The variable of each display, and its program. Without a type, wl-copy would run another program to guess it.
    private static let programs = [
        (display: "WAYLAND_DISPLAY", name: "wl-copy", arguments: ["--type", "text/plain"], package: "wl-clipboard"),
        (display: "DISPLAY", name: "xclip", arguments: ["-selection", "clipboard", "-in"], package: "xclip"),
    ]

    private let environment: DesktopEnvironment

    /// Creates a clipboard.
    ///
    /// - Parameter environment: The environment with the display, the programs and the terminal. The default is this
    ///   process's.
    public init(environment: DesktopEnvironment = .current) { self.environment = environment }

    /// Copies `text`.
    ///
    /// - Returns: `.copied` if wl-copy or xclip now holds the text, or `.requested` if the terminal was asked, which
    ///   does not answer.
    /// - Throws: ``DesktopError`` if all three are missing, or none accepted the text. A program that has not accepted
    ///   the text within two seconds has failed. A text of more than 74,994 bytes is not sent to a terminal.
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

    // MARK: Pasting

    /// Returns the clipboard's content, which is an image as PNG if there is one, and otherwise text.
    ///
    /// - Parameter limit: The maximum size in bytes. The default is 16 MiB.
    /// - Throws: ``DesktopError`` if the clipboard is empty, contains more, or can't be reached. A terminal's clipboard
    ///   can't be read. Many terminals refuse it, because a program on another machine could also read it.
    public func paste(limit: Int = 16 << 20) async throws(DesktopError) -> [UInt8] {
        var missing: String?
        for program in Self.readers where environment[program.display] != nil {
            guard let path = environment.executable(program.name) else {
                missing = missing ?? "\(program.name) is missing. Install the package \(program.package)."
                continue
            }
            func read(_ arguments: [String], _ limit: Int) async -> [UInt8]? {
                await environment.output(
                    ChildProcess(
                        path: path, arguments: program.arguments + arguments, environment: environment.variables,
                        limit: .seconds(2), atLimit: .kill), limit)
            }
            guard let types = await read(program.list, 64 << 10) else { continue }
            let names = String(decoding: types, as: UTF8.self).split(separator: "\n")
            let isImage = names.contains("image/png")
            if let bytes = await read([program.typeOption, isImage ? "image/png" : program.text], limit), !bytes.isEmpty
            {
                return bytes
            }
            throw DesktopError("The clipboard holds neither an image nor text, or more than \(limit >> 20) MiB.")
        }
        let reason = environment.hasDisplay ? "The clipboard is empty, or can't be reached." : "There is no display."
        throw DesktopError("Nothing was pasted. \(missing ?? reason)")
    }

    private static let readers = [
        (
            display: "WAYLAND_DISPLAY", name: "wl-paste", arguments: ["--no-newline"], list: ["--list-types"],
            typeOption: "--type", text: "text/plain;charset=utf-8", package: "wl-clipboard"
        ),
        (
            display: "DISPLAY", name: "xclip", arguments: ["-selection", "clipboard", "-out"],
            list: ["-target", "TARGETS"], typeOption: "-target", text: "UTF8_STRING", package: "xclip"
        ),
    ]
}

/// The terminal's clipboard, which is "Manipulate Selection Data" in xterm's control sequences.
///
/// <https://invisible-island.net/xterm/ctlseqs/ctlseqs.html#h2-Operating-System-Commands>
enum OSC52 {
    /// Returns the bytes that ask a terminal to put `text` on its clipboard, or `nil` if the text is too long. The
    /// limit is 100,000 bytes in Base64, which is common among terminals.
    ///
    /// - Parameter insideTmux: Whether to wrap the sequence so that tmux passes it on to its own terminal. By default,
    ///   tmux ignores the sequence if a program that runs inside it sends it.
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
