import CQRencode

/// A QR code (ISO/IEC 18004) with the least error correction, level L, as a terminal can paint it.
///
/// A cell of the terminal holds two modules, one above the other. If both have the same colour, the cell's background
/// alone paints them: glyphs don't fill the cell in every font. `▄` is in those cells only whose halves differ. Both
/// colours are always given, so that the user's own colours don't matter.
struct QRCode {
    /// The modules of a side: 21 to 177.
    let side: Int
    private let modules: [Bool]

    /// Whether this machine has the library that makes them.
    static var canBeMade: Bool { cqrencode_is_there() }

    /// `nil` for an empty text, for more than 2953 bytes, and if the library is missing.
    init?(_ text: String) {
        let bytes = Array(text.utf8)
        guard (1...2953).contains(bytes.count),
            let code = cqrencode_encode(CInt(bytes.count), bytes)
        else { return nil }
        defer { cqrencode_free(code) }
        side = Int(code.pointee.width)
        // The lowest bit is the colour; the others say which part of the code the module belongs to.
        modules = (0..<side * side).map { code.pointee.data[$0] & 1 == 1 }
    }

    /// Returns the cells of a line with a light margin of so many modules around the code. There are half as many
    /// lines, rounded up.
    func columns(margin: Int) -> Int { side + 2 * margin }

    /// Returns the code as lines of cells. Each begins and ends with the terminal's own colours.
    func lines(margin: Int) -> [String] {
        stride(from: -margin, to: side + margin, by: 2).map { row in
            var (line, colours) = ("", "")
            for column in -margin..<side + margin {
                let (upper, lower) = (isDark(row, column), isDark(row + 1, column))
                let next = Self.colours(upper: upper, lower: lower)
                if next != colours { line += next }
                colours = next
                line += upper == lower ? " " : "▄"
            }
            return line + "\u{1B}[0m"
        }
    }

    private func isDark(_ row: Int, _ column: Int) -> Bool {
        (0..<side).contains(row) && (0..<side).contains(column) && modules[row * side + column]
    }

    /// Black is 16 and white 231 of the 256 colours: unlike the first sixteen, themes leave these alone.
    private static func colours(upper: Bool, lower: Bool) -> String {
        "\u{1B}[38;5;\(lower ? 16 : 231);48;5;\(upper ? 16 : 231)m"
    }
}
