public import ChappieAuth

/// Copies text with wl-copy under Wayland, with xclip under X11, and otherwise by asking the terminal (OSC 52).
///
/// A way that fails is followed by the next one. The text travels by standard input, never as an argument.
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
                    environment.writeToTerminal(sequence)
                {
                    return .requested
                }
            }
        }
        throw ClipboardRoute.failure(in: environment)
    }
}
