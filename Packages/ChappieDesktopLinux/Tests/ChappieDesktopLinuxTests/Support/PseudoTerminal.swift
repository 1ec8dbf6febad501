import Foundation
import TestFixtures

@testable import ChappieDesktopLinux

/// A terminal whose screen the test reads.
final class PseudoTerminal {
    let path: String
    private let screen: FileDescriptor
    private let program: FileDescriptor

    init() throws {
        // Linux's own way (pty(7), ioctl_tty(2)); Swift does not see posix_openpt.
        let (lock, getNumber): (UInt, UInt) = (0x4004_5431, 0x8004_5430)
        screen = FileDescriptor(open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC))
        var (isLocked, number): (Int32, Int32) = (0, -1)
        guard screen.isOpen, ioctl(screen.number, lock, &isLocked) == 0, ioctl(screen.number, getNumber, &number) == 0
        else { throw FixtureFailure("no pseudo-terminal: \(String(cString: strerror(errno)))") }
        path = "/dev/pts/\(number)"
        program = FileDescriptor(open(path, O_RDWR | O_NOCTTY | O_CLOEXEC))
        guard program.isOpen else { throw FixtureFailure("\(path): \(String(cString: strerror(errno)))") }
        // Bytes are to arrive as they were written, without carriage returns added.
        var settings = termios()
        tcgetattr(program.number, &settings)
        cfmakeraw(&settings)
        tcsetattr(program.number, TCSANOW, &settings)
    }

    /// The descriptor that a program inside the terminal has.
    var inside: Int32 { program.number }

    func read(_ count: Int) -> [UInt8] {
        var bytes: [UInt8] = []
        while bytes.count < count {
            var chunk = [UInt8](repeating: 0, count: count - bytes.count)
            let got = Glibc.read(screen.number, &chunk, chunk.count)
            guard got > 0 else { break }
            bytes += chunk.prefix(got)
        }
        return bytes
    }
}
