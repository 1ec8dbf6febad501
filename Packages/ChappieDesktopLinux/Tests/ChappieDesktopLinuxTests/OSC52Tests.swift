import Testing

@testable import ChappieDesktopLinux

struct OSC52Tests {
    @Test func asksForTheClipboard() {
        #expect(OSC52.sequence(copying: "ABCD-1234", insideTmux: false) == Array("\u{1B}]52;c;QUJDRC0xMjM0\u{7}".utf8))
    }

    @Test func passesThroughTmux() {
        let sequence = OSC52.sequence(copying: "ABCD-1234", insideTmux: true)
        #expect(sequence == Array("\u{1B}Ptmux;\u{1B}\u{1B}]52;c;QUJDRC0xMjM0\u{7}\u{1B}\\".utf8))
    }

    @Test func textCantEscapeFromTheSequence() throws {
        let sequence = try #require(OSC52.sequence(copying: "\u{7}\u{1B}[31m;\u{1B}\\", insideTmux: false))
        #expect(sequence.filter { $0 < 0x20 } == [0x1B, 0x07])
    }

    @Test func refusesWhatTerminalsRefuse() {
        #expect(OSC52.sequence(copying: String(repeating: "x", count: 74_994), insideTmux: false) != nil)
        #expect(OSC52.sequence(copying: String(repeating: "x", count: 74_995), insideTmux: false) == nil)
    }
}
