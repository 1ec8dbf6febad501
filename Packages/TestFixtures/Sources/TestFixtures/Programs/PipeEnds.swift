import Glibc
import Synchronization

/// The two ends of a pipe, neither of which a program inherits by itself: it would keep the other end waiting.
struct PipeEnds {
    let reading: CInt
    let writing: CInt

    /// Held by who makes a pipe and by who starts a program, so that none starts before the ends are marked.
    static let isInTheMaking = Mutex(())

    init() throws {
        var ends: [CInt] = [-1, -1]
        let isMade = Self.isInTheMaking.withLock { _ in
            pipe(&ends) == 0 && ends.allSatisfy { fcntl($0, F_SETFD, FD_CLOEXEC) == 0 }
        }
        guard isMade else { throw FixtureFailure("no pipe: \(String(cString: strerror(errno)))") }
        (reading, writing) = (ends[0], ends[1])
    }
}
