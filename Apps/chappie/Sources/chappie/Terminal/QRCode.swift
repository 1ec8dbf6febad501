import CQRencode

/// A QR code (ISO/IEC 18004) with the lowest error correction, level L, in a form that a terminal can show.
///
/// A cell of the terminal contains two modules, one above the other. If both have the same colour, only the cell's
/// background paints them, because glyphs do not fill the cell in every font. Only cells with two different halves
/// contain `▄`. Both colours are always set, so the user's own colours have no effect.
struct QRCode {
    /// The number of modules on a side, from 21 to 177.
    let side: Int
    private let modules: [Bool]

    /// Whether this machine has the library that makes QR codes.
    static var canBeMade: Bool { cqrencode_is_there() }

    /// Returns `nil` for an empty text, for more than 2953 bytes, and if the library is missing.
    init?(_ text: String) {
        let bytes = Array(text.utf8)
        guard (1...2953).contains(bytes.count),
            let code = cqrencode_encode(CInt(bytes.count), bytes)
        else { return nil }
        defer { cqrencode_free(code) }
        side = Int(code.pointee.width)
        // The lowest bit is the colour. The others specify the part of the code that the module belongs to.
        modules = (0..<side * side).map { code.pointee.data[$0] & 1 == 1 }
    }

    /// Returns the number of cells in a line with a light margin of `margin` modules around the code. The number of
    /// lines is half of it, rounded up.
    func columns(margin: Int) -> Int { side + 2 * margin }

    /// Returns the code as lines of cells. Each line begins and ends with the terminal's own colours.
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

    /// Returns the sequence that sets the colours. Black is 16 and white is 231 of the 256 colours. Unlike the first
    /// sixteen, themes do not change them.
    private static func colours(upper: Bool, lower: Bool) -> String {
        "\u{1B}[38;5;\(lower ? 16 : 231);48;5;\(upper ? 16 : 231)m"
    }
}
