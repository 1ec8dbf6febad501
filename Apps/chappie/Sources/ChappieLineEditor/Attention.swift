import Glibc

/// A descriptor that becomes readable when the terminal changes its size, when a shell gives the terminal back, and on
/// request.
enum Attention {
    /// The pipe that the signal handler writes to, because a handler may do little else.
    private static let pipe: (reader: CInt, writer: CInt) = {
        var ends: [CInt] = [-1, -1]
        guard Glibc.pipe(&ends) == 0 else { return (-1, -1) }
        for end in ends {
            _ = fcntl(end, F_SETFD, FD_CLOEXEC)
            _ = fcntl(end, F_SETFL, O_NONBLOCK)
        }
        return (ends[0], ends[1])
    }()

    /// Makes the descriptor readable.
    static func call() { _ = write(pipe.writer, "w", 1) }

    /// The descriptor. Its first use installs the signal handler.
    static let reader: CInt = {
        guard pipe.reader >= 0 else { return -1 }
        var action = sigaction()
        action.sa_flags = SA_RESTART
        action.__sigaction_handler.sa_handler = { _ in
            let reason = errno
            Attention.call()
            errno = reason
        }
        for number in [SIGWINCH, SIGCONT] { sigaction(number, &action, nil) }
        return pipe.reader
    }()
}
