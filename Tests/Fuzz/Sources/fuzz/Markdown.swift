@testable import ChappieMarkdown

/// Never traps; the cuts do not show, neither on a pipe nor on a screen, and nothing that a terminal obeys comes through. The
/// second byte of the input says how large the screen is.
func drawMarkdown(_ input: UnsafeBufferPointer<UInt8>) -> CInt {
    let size = Int(input.first ?? 0)
    let chunks = Chunks(UnsafeBufferPointer(rebasing: input.dropFirst()))
    let scalars = Array(String(decoding: chunks.whole, as: UTF8.self).unicodeScalars)
    let cut = chunks.cut(scalars).map { String(String.UnicodeScalarView($0)) }
    let whole = [cut.joined()]
    let (width, height) = (8 + size % 32 * 2, 1 + size / 32)
    let piped = draw(whole, width, height: nil, isStyled: false)
    precondition(piped.unicodeScalars.allSatisfy { $0 == "\n" || $0 == "\t" || !isControl($0) }, "a control character")
    precondition(piped == draw(cut, width, height: nil, isStyled: false), "the cuts show on a pipe")
    let styled = draw(whole, width, height: nil, isStyled: true)
    precondition(withoutStyles(styled) == piped, "styles change the text")
    let expected = Screen.after([piped], width, height)
    precondition(Screen.after(draw(whole, width, height), width, height) == expected, "the preview stays")
    precondition(Screen.after(draw(cut, width, height), width, height) == expected, "the cuts show on a screen")
    return 0
}

private func draw(_ pieces: [String], _ width: Int, height: Int?, isStyled: Bool) -> String {
    var markdown = MarkdownStream(width: width, height: height, isStyled: isStyled)
    return pieces.map { markdown.append($0) }.joined() + markdown.finish()
}

private func draw(_ pieces: [String], _ width: Int, _ height: Int) -> [String] {
    var markdown = MarkdownStream(width: width, height: height)
    return pieces.map { markdown.append($0) } + [markdown.finish()]
}

private func isControl(_ scalar: Unicode.Scalar) -> Bool {
    scalar.properties.generalCategory == .control || [0x202E, 0x2066, 0xE0041].contains(scalar.value)
}

/// Everything but our own sequences.
private func withoutStyles(_ text: String) -> String {
    var output: [UInt8] = []
    var rest = text.utf8[...]
    while let byte = rest.popFirst() {
        if byte == 0x1B, rest.starts(with: "[0".utf8) {
            rest = rest.drop { $0 != UInt8(ascii: "m") }.dropFirst()
        } else {
            output.append(byte)
        }
    }
    return String(decoding: output, as: UTF8.self)
}

extension Screen {
    /// What stands there after the pieces.
    fileprivate static func after(_ pieces: [String], _ width: Int, _ height: Int) -> String {
        var screen = Screen(width: width, height: height)
        for piece in pieces { screen.write(piece) }
        precondition(screen.surprises.isEmpty, "the terminal obeys \(screen.surprises)")
        return screen.text
    }
}
