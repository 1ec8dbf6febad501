import ArgumentParser

/// Whether `chappie login` shows its page as a QR code.
enum QRChoice: String, ExpressibleByArgument, CaseIterable {
    case auto, always, never
}

/// Where the QR code of a page stands on a terminal: to the right of the text about it, or above the text.
///
/// The text is what matters. By itself (`auto`) a code is shown only where text, code and the lines that follow them are on
/// the screen together.
struct QRPlacement {
    var choice: QRChoice
    /// Of standard output; `nil` where it is no terminal.
    var size: (columns: Int, rows: Int)?
    /// Neither `NO_COLOR` nor `TERM=dumb` forbids colours.
    var hasStyles: Bool
    var environment: ProgramEnvironment
    /// A browser opens the page on this machine: the user needs no telephone.
    var opensBrowser: Bool

    /// Why there is no code although the user wants one, as a sentence.
    struct Obstacle: Error, Equatable { let sentence: String }

    /// For what follows: sentences about clipboard and browser, at most 230 characters together, and the countdown.
    private static func rowsBelow(_ columns: Int) -> Int { (230 + columns - 1) / columns + 2 }

    /// ISO/IEC 18004 asks for four modules; cameras and zbar do with two, where four don't fit.
    private static let margins = [4, 2]

    /// The lines of `text` with the code of `page`, to be written as they are; `nil` where the text stands alone.
    ///
    /// - Parameter text: clean of control characters.
    func lines(_ text: [String], page: String) throws(Obstacle) -> [String]? {
        switch choice {
        case .never: return nil
        case .auto:
            guard let size, hasStyles, has256Colours, isUTF8, !opensBrowser, let code = QRCode(page) else { return nil }
            return Self.fitting(text, code, size)
        case .always:
            guard let size else { throw Self.obstacle("standard output is no terminal") }
            guard environment["TERM"] != "dumb" else { throw Self.obstacle("this terminal (TERM=dumb) has no colours") }
            guard QRCode.canBeMade else {
                throw Self.obstacle("libqrencode is missing. Install the package libqrencode4")
            }
            guard let code = QRCode(page) else { throw Self.obstacle("the address is too long") }
            if let lines = Self.fitting(text, code, size) { return lines }
            // The text stays on the screen; the user can scroll back to the code, or has a larger window in a moment.
            guard let margin = Self.margins.first(where: { code.columns(margin: $0) <= size.columns }) else {
                let least = code.columns(margin: Self.margins.last ?? 0)
                throw Self.obstacle("it needs \(least) columns, and here are \(size.columns)")
            }
            return code.lines(margin: margin) + [""] + text + [""]
        }
    }

    private static func obstacle(_ reason: String) -> Obstacle {
        Obstacle(sentence: "No QR code is shown: \(reason).")
    }

    private static func fitting(
        _ text: [String], _ code: QRCode, _ size: (columns: Int, rows: Int)
    ) -> [String]? {
        for margin in margins {
            let painted = code.lines(margin: margin)
            if let lines = beside(text, painted, code.columns(margin: margin), size.columns),
                lines.count + rowsBelow(size.columns) <= size.rows
            {
                return lines
            }
            let rows = text.reduce(painted.count + 2) { $0 + max(1, ($1.count + size.columns - 1) / size.columns) }
            if code.columns(margin: margin) <= size.columns, rows + rowsBelow(size.columns) <= size.rows {
                return painted + [""] + text + [""]
            }
        }
        return nil
    }

    /// `nil` where the two don't fit beside each other, or it is not known how wide the text is.
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

    /// Terminals that say `xterm` have shown them for many years, first of all xterm.
    private var has256Colours: Bool {
        let named = ["xterm", "xterm-kitty", "xterm-ghostty", "alacritty", "foot", "wezterm", "contour"]
        guard let terminal = environment["TERM"] else { return false }
        return environment["COLORTERM"] != nil || terminal.hasSuffix("-256color") || terminal.hasSuffix("-direct")
            || named.contains(terminal)
    }

    /// As the C library reads the locale's name.
    private var isUTF8: Bool {
        let locale = (environment["LC_ALL"] ?? environment["LC_CTYPE"] ?? environment["LANG"] ?? "").lowercased()
        return locale.contains("utf-8") || locale.contains("utf8")
    }
}
