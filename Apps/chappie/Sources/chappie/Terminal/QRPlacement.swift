import ArgumentParser

/// The choice of whether `chappie login` shows its page as a QR code.
enum QRChoice: String, ExpressibleByArgument, CaseIterable {
    case auto, always, never
}

/// The place of a page's QR code on a terminal, to the right of the text about it or above the text.
///
/// The text is more important. With `auto`, a code is shown only if text, code and the lines that follow them fit on
/// the screen together.
struct QRPlacement {
    let choice: QRChoice
    /// Whether standard output is a terminal.
    let isTerminal: Bool
    /// Whether neither `NO_COLOR` nor `TERM=dumb` forbids colours.
    let hasStyles: Bool
    let environment: ProgramEnvironment
    /// Whether a browser opens the page on this machine. In that case the user does not need a telephone.
    var opensBrowser: Bool

    /// A sentence with the reason why a requested code cannot be shown.
    struct Obstacle: Error { let sentence: String }

    /// Returns the number of rows that are kept free for the countdown and for sentences about clipboard and browser,
    /// which have at most 230 characters together.
    private static func rowsBelow(_ columns: Int) -> Int { (230 + columns - 1) / columns + 2 }

    /// The margins in modules. ISO/IEC 18004 requires four. Cameras and zbar can read a code with two if four do not
    /// fit.
    private static let margins = [4, 2]

    /// Returns the lines of `text` with the code of `page`, to be written unchanged, or `nil` if no code is shown.
    ///
    /// - Parameters:
    ///   - text: the text without control characters.
    ///   - size: the terminal's size, or `nil` if it is unknown, as on a serial line. If the user requests a code, 80
    ///     by 24 is then assumed.
    func lines(
        _ text: [String], page: String, size: (columns: Int, rows: Int)?
    ) throws(Obstacle) -> [String]? {
        switch choice {
        case .never: return nil
        case .auto:
            guard isTerminal, let size, hasStyles, has256Colours, isUTF8, !opensBrowser, let code = QRCode(page) else {
                return nil
            }
            return Self.layouts(text, code, size.columns).first { $0.fits(size) }?.lines
        case .always:
            guard isTerminal else { throw Self.obstacle("standard output is not a terminal") }
            guard environment["TERM"] != "dumb" else { throw Self.obstacle("this terminal (TERM=dumb) has no colours") }
            guard QRCode.canBeMade else {
                throw Self.obstacle("libqrencode is missing. Install the package libqrencode4")
            }
            guard let code = QRCode(page) else { throw Self.obstacle("the address is too long") }
            let size = size ?? (80, 24)
            let layouts = Self.layouts(text, code, size.columns)
            // Otherwise the text stays on the screen with as much of the code as there is room for. The user can scroll
            // back or enlarge the window.
            guard let layout = layouts.first(where: { $0.fits(size) }) ?? layouts.min(by: { $0.rows < $1.rows }) else {
                let least = code.columns(margin: Self.margins.last ?? 0)
                throw Self.obstacle("it needs \(least) columns, and this terminal has \(size.columns)")
            }
            return layout.lines
        }
    }

    private static func obstacle(_ reason: String) -> Obstacle {
        Obstacle(sentence: "No QR code is shown: \(reason).")
    }

    /// The lines and the number of terminal rows that they take.
    private struct Layout {
        let lines: [String]
        let rows: Int

        func fits(_ size: (columns: Int, rows: Int)) -> Bool { rows + rowsBelow(size.columns) <= size.rows }
    }

    /// Returns the layouts that fit the width of the terminal, beginning with the best.
    private static func layouts(_ text: [String], _ code: QRCode, _ columns: Int) -> [Layout] {
        margins.filter { code.columns(margin: $0) <= columns }.flatMap { margin in
            let painted = code.lines(margin: margin)
            let beside = beside(text, painted, code.columns(margin: margin), columns)
            let rows = text.reduce(painted.count + 2) { $0 + max(1, ($1.count + columns - 1) / columns) }
            return (beside.map { [Layout(lines: $0, rows: $0.count)] } ?? [])
                + [Layout(lines: painted + [""] + text + [""], rows: rows)]
        }
    }

    /// Returns the lines with the code next to the text, or `nil` if the two do not fit or if the width of the text is
    /// unknown.
    private static func beside(_ text: [String], _ painted: [String], _ width: Int, _ columns: Int) -> [String]? {
        let left = (text.map(\.count).max() ?? 0) + 2
        guard left + width <= columns, text.allSatisfy({ $0.utf8.allSatisfy { (0x20..<0x7F).contains($0) } }) else {
            return nil
        }
        return (0..<max(text.count, painted.count)).map { row in
            let words = row < text.count ? text[row] : ""
            return row < painted.count ? words.padded(to: left) + painted[row] : words
        }
    }

    /// Whether the terminal has 256 colours. Terminals that report `xterm`, especially xterm itself, have had them for
    /// many years.
    private var has256Colours: Bool {
        let named = ["xterm", "xterm-kitty", "xterm-ghostty", "alacritty", "foot", "wezterm", "contour"]
        guard let terminal = environment["TERM"] else { return false }
        return ["truecolor", "24bit"].contains(environment["COLORTERM"]) || terminal.hasSuffix("-256color")
            || terminal.hasSuffix("-direct")
            || named.contains(terminal)
    }

    /// Whether the locale uses UTF-8. Its name is read in the same way as in the C library.
    private var isUTF8: Bool {
        let locale = (environment["LC_ALL"] ?? environment["LC_CTYPE"] ?? environment["LANG"] ?? "").lowercased()
        return locale.contains("utf-8") || locale.contains("utf8")
    }
}
