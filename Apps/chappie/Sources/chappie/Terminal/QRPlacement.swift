import ArgumentParser

/// Whether `chappie login` shows its page as a QR code.
enum QRChoice: String, ExpressibleByArgument, CaseIterable {
    case auto, always, never
}

/// The place of a page's QR code on a terminal: to the right of the text about it, or above the text.
///
/// The text matters more. By itself (`auto`) a code is shown only if text, code and the lines that follow them are on
/// the screen together.
struct QRPlacement {
    let choice: QRChoice
    /// Standard output is one.
    let isTerminal: Bool
    /// Neither `NO_COLOR` nor `TERM=dumb` forbids colours.
    let hasStyles: Bool
    let environment: ProgramEnvironment
    /// A browser opens the page on this machine: the user needs no telephone.
    var opensBrowser: Bool

    /// The reason for which a code that the user wants can't be shown, as a sentence.
    struct Obstacle: Error { let sentence: String }

    /// These rows are kept free for sentences about clipboard and browser, at most 230 characters together, and the
    /// countdown.
    private static func rowsBelow(_ columns: Int) -> Int { (230 + columns - 1) / columns + 2 }

    /// ISO/IEC 18004 asks for four modules. Cameras and zbar can read a code with two, if four don't fit.
    private static let margins = [4, 2]

    /// Returns the lines of `text` with the code of `page`, to be written as they are, or `nil` if the text stands
    /// alone.
    ///
    /// - Parameters:
    ///   - text: clean of control characters.
    ///   - size: the terminal's; `nil` if it is not known, as on a serial line: if the user wants a code, 80 by 24 is
    ///     assumed.
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
            // Else the text stays on the screen, and as much of the code as there is room for: the user can scroll
            // back, or has a larger window in a moment.
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

    /// The lines, and how many rows of the terminal they take.
    private struct Layout {
        let lines: [String]
        let rows: Int

        func fits(_ size: (columns: Int, rows: Int)) -> Bool { rows + rowsBelow(size.columns) <= size.rows }
    }

    /// Returns the layouts for which the terminal is wide enough, the best first.
    private static func layouts(_ text: [String], _ code: QRCode, _ columns: Int) -> [Layout] {
        margins.filter { code.columns(margin: $0) <= columns }.flatMap { margin in
            let painted = code.lines(margin: margin)
            let beside = beside(text, painted, code.columns(margin: margin), columns)
            let rows = text.reduce(painted.count + 2) { $0 + max(1, ($1.count + columns - 1) / columns) }
            return (beside.map { [Layout(lines: $0, rows: $0.count)] } ?? [])
                + [Layout(lines: painted + [""] + text + [""], rows: rows)]
        }
    }

    /// `nil` if the two don't fit beside each other, or if the width of the text is not known.
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

    /// Terminals that say `xterm`, first of all xterm, have shown them for many years.
    private var has256Colours: Bool {
        let named = ["xterm", "xterm-kitty", "xterm-ghostty", "alacritty", "foot", "wezterm", "contour"]
        guard let terminal = environment["TERM"] else { return false }
        return ["truecolor", "24bit"].contains(environment["COLORTERM"]) || terminal.hasSuffix("-256color")
            || terminal.hasSuffix("-direct")
            || named.contains(terminal)
    }

    /// The locale's name is read as the C library does it.
    private var isUTF8: Bool {
        let locale = (environment["LC_ALL"] ?? environment["LC_CTYPE"] ?? environment["LANG"] ?? "").lowercased()
        return locale.contains("utf-8") || locale.contains("utf8")
    }
}
