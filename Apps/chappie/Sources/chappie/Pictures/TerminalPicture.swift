@_spi(ChappieInternals) import ChappieCore
import ChappieLineEditor
@_spi(ChappieInternals) import ChappieProcess
import ChappieSDK
import FoundationEssentials
import Synchronization

/// A protocol by which a terminal shows pictures.
///
/// The environment tells which one the terminal has. The terminal is not asked, because one that does not know the
/// question would not answer it.
enum TerminalPicture {
    /// The graphics protocol of kitty (https://sw.kovidgoyal.net/kitty/graphics-protocol/), which takes PNG.
    case kitty
    /// The inline images of iTerm2 (https://iterm2.com/documentation-images.html).
    case iTerm

    /// The largest part of a picture in one command of kitty, in bytes.
    private static let pieceLength = 4096

    init?(_ environment: ProgramEnvironment) {
        // Neither protocol passes through a terminal multiplexer.
        guard environment["TMUX"] == nil, environment["STY"] == nil else { return nil }
        let terminal = environment["TERM"] ?? ""
        let program = environment["TERM_PROGRAM"] ?? environment["LC_TERMINAL"] ?? ""
        if ["iTerm.app", "iTerm2", "WezTerm", "mintty"].contains(program) {
            self = .iTerm
        } else if environment["KITTY_WINDOW_ID"] != nil || ["xterm-kitty", "xterm-ghostty"].contains(terminal) {
            self = .kitty
        } else {
            return nil
        }
    }

    /// Returns the text that shows the picture in this number of columns, or `nil` if the terminal does not take its
    /// format.
    func sequence(for picture: ChappieGeneratedImage, columns: Int) -> String? {
        let digits = Data(picture.bytes).base64EncodedString()
        switch self {
        case .iTerm:
            let size = "size=\(picture.bytes.count);width=\(columns);preserveAspectRatio=1"
            return "\u{1B}]1337;File=inline=1;\(size):\(digits)\u{07}\n"
        case .kitty:
            guard picture.format == .png else { return nil }
            var rest = digits.utf8[...]
            // The terminal must not answer (q=2), because the shell would take the answer for keys.
            var control = "a=T,f=100,q=2,c=\(columns),"
            var text = ""
            repeat {
                let piece = rest.prefix(Self.pieceLength)
                rest = rest[piece.endIndex...]
                text += "\u{1B}_G\(control)m=\(rest.isEmpty ? 0 : 1);\(Substring(piece))\u{1B}\\"
                control = ""
            } while !rest.isEmpty
            return text + "\n"
        }
    }

    /// Returns the number of columns in which a picture fits on a screen. A small picture is not enlarged. A cell is
    /// assumed to have 8 by 16 pixels.
    static func columns(forWidth width: Int, height: Int, on screen: (columns: Int, rows: Int)) -> Int {
        let fitting = max(screen.rows - 4, 1) * 2 * width / height
        return max(min(screen.columns, fitting, (width + 7) / 8), 1)
    }

    /// Shows the picture if standard output and standard error are a terminal that can show it, or if the program
    /// `chafa` is installed. Otherwise does nothing.
    ///
    /// - Parameter path: the file with the picture.
    static func show(
        _ picture: ChappieGeneratedImage, at path: String, on console: Console, _ environment: ProgramEnvironment
    ) async {
        let terminals = console.terminals
        guard terminals.output, terminals.error, terminals.styles, let screen = TerminalState.size() else { return }
        let columns = columns(forWidth: picture.width, height: max(picture.height, 1), on: screen)
        if let text = TerminalPicture(environment)?.sequence(for: picture, columns: columns) {
            console.draw(text)
        } else if let text = await drawnByChafa(path, "\(columns)x\(max(screen.rows - 4, 1))", environment) {
            console.draw(text)
        }
    }

    /// The maximum size of what `chafa` writes, in bytes.
    private static let outputLimit = 8 << 20

    /// Returns what `chafa` draws, or `nil` if it is not installed, fails, or takes too long.
    private static func drawnByChafa(
        _ path: String, _ size: String, _ environment: ProgramEnvironment
    ) async -> String? {
        let path = path.hasPrefix("/") ? path : "./" + path
        let variables = ["COLORTERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION"].compactMap { name in
            environment[name].map { (name, $0) }
        }
        let all = ProgramInvocation.cleanEnvironment(adding: Dictionary(uniqueKeysWithValues: variables))
        let output = Mutex<[UInt8]>([])
        let ended = Promise<Int32>()
        guard
            let invocation = try? ProgramInvocation(command: ["chafa", "--size", size, path], environment: all),
            let program = try? PipedProgram(
                invocation, inputLimit: 0, endsGroup: true,
                onEvent: { event in
                    switch event {
                    case .output(let bytes): output.withLock { $0 += $0.count <= outputLimit ? bytes : [] }
                    case .ended(let code): ended.fulfil(.success(code))
                    default: break
                    }
                })
        else { return nil }
        program.end(patience: .seconds(10), grace: .seconds(1))
        guard let code = try? await ended.value() else {
            program.kill()
            return nil
        }
        let bytes = output.withLock(\.self)
        return code == 0 && bytes.count <= outputLimit ? String(decoding: bytes, as: UTF8.self) : nil
    }
}
