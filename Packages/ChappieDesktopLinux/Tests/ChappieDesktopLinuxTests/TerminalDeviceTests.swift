import Foundation
import TestFixtures
import Testing

@testable import ChappieDesktopLinux

struct TerminalDeviceTests {
    @Test func writesToATerminal() throws {
        let terminal = try PseudoTerminal()
        let sequence = try #require(OSC52.sequence(copying: "ABCD-1234", insideTmux: true))
        #expect(try #require(TerminalDevice(path: terminal.path)).write(sequence))
        #expect(terminal.read(sequence.count) == sequence)
    }

    @Test func findsTheTerminalBehindADescriptor() throws {
        let terminal = try PseudoTerminal()
        let device = try #require(TerminalDevice(path: "/proc/self/fd/\(terminal.inside)"))
        #expect(device.write([1, 2, 3]))
        #expect(terminal.read(3) == [1, 2, 3])
    }

    @Test func givesUpOnAStoppedTerminal() throws {
        let terminal = try PseudoTerminal()
        // No reader: the terminal's buffer fills up.
        let start = ContinuousClock.now
        #expect(
            try #require(TerminalDevice(path: terminal.path)).write([UInt8](repeating: 0x41, count: 1 << 20)) == false)
        #expect(ContinuousClock.now - start < Patience.limit)
    }

    @Test func writesNothingIntoAPipe() throws {
        var ends: [Int32] = [0, 0]
        #expect(pipe(&ends) == 0)
        #expect(fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0)
        let (reading, writing) = (FileDescriptor(ends[0]), FileDescriptor(ends[1]))
        #expect(TerminalDevice(path: "/proc/self/fd/\(writing.number)") == nil)
        var byte: UInt8 = 0
        #expect(Glibc.read(reading.number, &byte, 1) == -1)
        #expect(errno == EAGAIN)
    }

    @Test func aFileIsNoTerminal() throws {
        let folder = try Folder()
        try folder.write("", to: "file")
        #expect(TerminalDevice(path: folder.path("file")) == nil)
        #expect(TerminalDevice(path: "/dev/null") == nil)
        #expect(TerminalDevice(path: folder.path("missing")) == nil)
        #expect(try folder.read("file").isEmpty)
    }
}
