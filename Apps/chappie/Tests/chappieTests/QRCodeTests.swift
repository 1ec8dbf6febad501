import CQRencode
import Testing

@testable import chappie

@Suite struct QRCodeTests {
    /// How many bytes each of the 40 sizes holds at level L (ISO/IEC 18004, table 7).
    private static let capacities = [
        17, 32, 53, 78, 106, 134, 154, 192, 230, 271, 321, 367, 425, 458, 520, 586, 644, 718, 792, 858, 929, 1003, 1091,
        1171, 1273, 1367, 1465, 1528, 1628, 1732, 1840, 1952, 2068, 2188, 2303, 2431, 2563, 2699, 2809, 2953,
    ]

    @Test(arguments: zip(capacities, 1...40))
    func `the cells of every size match the modules that the library made`(_ bytes: Int, _ version: Int) throws {
        let text = String(repeating: "https://auth.example/device?", count: 106).prefix(bytes)
        let code = try #require(QRCode(String(text)))
        #expect(code.side == 17 + 4 * version)
        let original = try #require(cqrencode_encode(CInt(bytes), Array(text.utf8)))
        defer { cqrencode_free(original) }
        // An odd margin as well: it is another half of a cell where the code begins.
        for margin in version == 3 ? [0, 1, 2, 4] : [2] {
            let rows = try code.lines(margin: margin).flatMap { try modules(of: $0) }
            let width = code.columns(margin: margin)
            let expected = (0..<(width + 1) / 2 * 2).map { row in
                (0..<width).map { column in
                    let (row, column) = (row - margin, column - margin)
                    guard (0..<code.side).contains(row), (0..<code.side).contains(column) else { return false }
                    return original.pointee.data[row * code.side + column] & 1 == 1
                }
            }
            #expect(rows == expected, "margin \(margin)")
        }
    }

    @Test(arguments: ["", String(repeating: "x", count: 2954)]) func otherTextsHaveNoCode(_ text: String) {
        #expect(QRCode(text) == nil)
    }

    /// Two rows of modules, read as a terminal shows the line: cells by the colours that are set, and none is left set.
    private func modules(of line: String) throws -> [[Bool]] {
        var (upper, lower): ([Bool], [Bool]) = ([], [])
        var colours: (foreground: Bool, background: Bool)?
        var rest = line.unicodeScalars[...]
        while let character = rest.popFirst() {
            if character == "\u{1B}" {
                let sequence = rest.prefix { $0 != "m" }
                rest = rest.dropFirst(sequence.count + 1)
                let numbers = sequence.dropFirst().split(separator: ";").compactMap { Int(String($0)) }
                colours = Self.colours(numbers)
                try #require((colours == nil) == (numbers == [0]), "\(sequence)")
                continue
            }
            let (foreground, background) = try #require(colours, "a cell in the terminal's own colours")
            try #require(character == " " || character == "▄")
            upper.append(background)
            lower.append(character == " " ? background : foreground)
        }
        #expect(colours == nil, "colours are left set")
        return [upper, lower]
    }

    /// Which of foreground and background are black; `nil` for anything but black and white.
    private static func colours(_ numbers: [Int]) -> (foreground: Bool, background: Bool)? {
        guard numbers.count == 6, numbers[..<2] == [38, 5], numbers[3..<5] == [48, 5],
            [16, 231].contains(numbers[2]), [16, 231].contains(numbers[5])
        else { return nil }
        return (numbers[2] == 16, numbers[5] == 16)
    }
}

@Suite struct QRPlacementTests {
    enum Place: Equatable { case beside(margin: Int), above(margin: Int), nowhere, refused(String) }

    struct Case: Sendable {
        var choice = QRChoice.auto
        var isTerminal = true
        /// `nil`: unknown.
        var size: [Int]? = [80, 24]
        var text = [
            "Open this page:", "", "    https://auth.openai.com/codex/device", "", "Then enter:", "", "    ABCD-EFGHI",
            "",
        ]
        var page = "https://auth.openai.com/codex/device"
        var hasStyles = true
        var opensBrowser = false
        var environment = ["TERM": "xterm-256color", "LANG": "en_GB.UTF-8"]
        let place: Place
    }

    private static let long = "https://auth.example/" + String(repeating: "x", count: 80)

    @Test(
        arguments: [
            // The size.
            Case(place: .beside(margin: 4)), Case(size: [79, 24], place: .beside(margin: 4)),
            Case(size: [78, 24], place: .beside(margin: 2)), Case(size: [80, 23], place: .beside(margin: 2)),
            Case(size: [80, 22], place: .beside(margin: 2)), Case(size: [80, 21], place: .nowhere),
            Case(size: [74, 24], place: .nowhere), Case(size: [74, 35], place: .above(margin: 4)),
            Case(size: [40, 37], place: .above(margin: 4)), Case(size: [40, 36], place: .above(margin: 2)),
            Case(size: [40, 34], place: .nowhere), Case(size: [40, 20], place: .nowhere),
            Case(size: [33, 100], place: .above(margin: 2)), Case(size: [32, 100], place: .nowhere),
            Case(size: nil, place: .nowhere), Case(size: [80, 24], page: long, place: .nowhere),
            Case(size: [100, 40], page: long, place: .beside(margin: 4)),
            Case(size: [80, 100], text: ["數"], place: .above(margin: 4)),
            // The environment forbids it, or names what it takes.
            Case(hasStyles: false, place: .nowhere), Case(opensBrowser: true, place: .nowhere),
            Case(environment: ["LANG": "C.UTF-8"], place: .nowhere),
            Case(environment: ["TERM": "xterm", "LC_CTYPE": "C.utf8", "LANG": "C"], place: .beside(margin: 4)),
            Case(environment: ["TERM": "xterm", "LC_ALL": "C", "LANG": "C.UTF-8"], place: .nowhere),
            Case(environment: ["TERM": "xterm"], place: .nowhere),
            Case(environment: ["TERM": "vt220", "LANG": "C.UTF-8"], place: .nowhere),
            Case(environment: ["TERM": "linux", "LANG": "C.UTF-8"], place: .nowhere),
            Case(
                environment: ["TERM": "vt220", "COLORTERM": "truecolor", "LANG": "C.UTF-8"], place: .beside(margin: 4)),
            Case(environment: ["TERM": "vt220", "COLORTERM": "yes", "LANG": "C.UTF-8"], place: .nowhere),
            Case(environment: ["TERM": "tmux-256color", "LANG": "C.UTF-8"], place: .beside(margin: 4)),
            Case(environment: ["TERM": "foot", "LANG": "C.UTF-8"], place: .beside(margin: 4)),
            // The user's word.
            Case(choice: .never, place: .nowhere), Case(choice: .never, size: nil, place: .nowhere),
            Case(choice: .always, hasStyles: false, opensBrowser: true, environment: [:], place: .beside(margin: 4)),
            Case(choice: .always, size: [80, 22], place: .beside(margin: 2)),
            Case(choice: .always, size: [80, 20], place: .beside(margin: 2)),
            Case(choice: .always, size: [75, 5], place: .beside(margin: 2)),
            Case(choice: .always, size: [40, 37], place: .above(margin: 4)),
            Case(choice: .always, size: [40, 20], place: .above(margin: 2)),
            Case(choice: .always, size: nil, place: .beside(margin: 4)),
            Case(choice: .always, size: [32, 20], place: .refused("it needs 33 columns, and this terminal has 32")),
            Case(isTerminal: false, place: .nowhere),
            Case(choice: .always, isTerminal: false, place: .refused("standard output is not a terminal")),
            Case(
                choice: .always, environment: ["TERM": "dumb"],
                place: .refused("this terminal (TERM=dumb) has no colours")),
            Case(
                choice: .always, page: String(repeating: "x", count: 3000), place: .refused("the address is too long")),
        ])
    func theCodeStandsWhereThereIsRoomForItAndTheText(_ test: Case) throws {
        let placement = QRPlacement(
            choice: test.choice, isTerminal: test.isTerminal, hasStyles: test.hasStyles,
            environment: ProgramEnvironment { test.environment[$0] }, opensBrowser: test.opensBrowser)
        #expect(try place(of: test, in: placement) == test.place)
    }

    /// Also expects every line of the text and of the code to be there.
    private func place(of test: Case, in placement: QRPlacement) throws -> Place {
        let lines: [String]?
        do {
            lines = try placement.lines(test.text, page: test.page, size: test.size.map { ($0[0], $0[1]) })
        } catch {
            let (lead, end) = ("No QR code is shown: ", ".")
            #expect(error.sentence.hasPrefix(lead) && error.sentence.hasSuffix(end))
            return .refused(String(error.sentence.dropFirst(lead.count).dropLast(end.count)))
        }
        guard let lines else { return .nowhere }
        let code = try #require(QRCode(test.page))
        let margin = try #require([4, 2].first { lines[0].hasSuffix(code.lines(margin: $0)[0]) })
        let painted = code.lines(margin: margin)
        if lines[0] == painted[0] {
            #expect(lines == painted + [""] + test.text + [""])
            return .above(margin: margin)
        }
        let left = test.text.map(\.count).max().map { $0 + 2 } ?? 0
        #expect(lines.count == max(painted.count, test.text.count))
        for (row, line) in lines.enumerated() {
            #expect(line == (row < test.text.count ? test.text[row] : "").padded(to: left) + painted[row])
        }
        return .beside(margin: margin)
    }
}
