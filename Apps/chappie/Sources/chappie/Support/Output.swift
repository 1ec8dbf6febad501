@_spi(ChappieInternals) import ChappieCore
import ChappieSDK
import Glibc

/// Standard output and standard error, unbuffered and safe against a reader that has gone.
///
/// A terminal gets no control characters: what is printed comes from models and servers as well. In a file or a pipe they
/// are data, and stay.
enum Output {
    /// Writes to standard output. When nobody reads any more, the program ends as every tool in a pipe does: silently.
    static func write(_ text: String) {
        write(verbatim: Terminal.outputIsTerminal ? UntrustedText.forTerminal(text) : text, to: STDOUT_FILENO)
    }

    static func line(_ text: String = "") { write(text + "\n") }

    /// One JSON value on one line.
    static func json(_ value: ChappieJSON) { write(value.serialized() + "\n") }

    /// A line for the person on standard error, which is never data.
    static func note(_ text: String) { write(verbatim: UntrustedText.forTerminal(text) + "\n", to: STDERR_FILENO) }

    /// As it is, cursor movements too: for the program's own words only.
    static func writeToError(_ text: String) { write(verbatim: text, to: STDERR_FILENO) }

    private static func write(verbatim text: String, to descriptor: Int32) {
        var text = text
        text.withUTF8 { buffer in
            var rest = UnsafeRawBufferPointer(buffer)
            while let base = rest.baseAddress, !rest.isEmpty {
                let written = Glibc.write(descriptor, base, rest.count)
                if written > 0 {
                    rest = UnsafeRawBufferPointer(rebasing: rest[written...])
                } else if errno == EAGAIN {
                    var poller = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                    _ = poll(&poller, 1, -1)
                } else if errno != EINTR {
                    if errno == EPIPE, descriptor == STDOUT_FILENO { dieOfBrokenPipe() }
                    return
                }
            }
        }
    }

    /// SIGPIPE is ignored elsewhere for the sockets' sake; here its default is right.
    private static func dieOfBrokenPipe() -> Never {
        signal(SIGPIPE, SIG_DFL)
        raise(SIGPIPE)
        _exit(141)
    }
}
