@_spi(ChappieInternals) import ChappieFiles
@_spi(ChappieInternals) import ChappieProcess
import Foundation
import TestFixtures
import Testing

@testable import ChappieDesktopLinux

struct TerminalDeviceTests {
    @Test func writesToATerminalByItsPathOrADescriptor() throws {
        let terminal = try PseudoTerminal()
        let sequence = try #require(OSC52.sequence(copying: "ABCD-1234", insideTmux: true))
        for path in [terminal.path, "/proc/self/fd/\(terminal.inside)"] {
            #expect(try #require(TerminalDevice(path: path)).write(sequence))
            #expect(terminal.read(sequence.count) == sequence)
        }
    }

    @Test func givesUpOnAStoppedTerminal() throws {
        let terminal = try PseudoTerminal()
        // No reader: the terminal's buffer fills up.
        let start = ContinuousClock.now
        let device = try #require(TerminalDevice(path: terminal.path))
        #expect(!device.write([UInt8](repeating: 0x41, count: 1 << 20)))
        #expect(ContinuousClock.now - start < Patience.limit)
    }

    @Test func aPipeOrAFileIsNoTerminal() throws {
        let folder = try TemporaryDirectory()
        let (reading, writing) = try Descriptor.pipe()
        let file = try folder.write("", to: "file")
        for path in ["/proc/self/fd/\(writing.number)", file, "/dev/null", folder.path("missing")] {
            #expect(TerminalDevice(path: path) == nil)
        }
        #expect(try folder.read("file").isEmpty)
        withExtendedLifetime(reading) {}
    }
}
