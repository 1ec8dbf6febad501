import Foundation
import Glibc

/// A running `FileStoreWriter`. Blocking: for threads of the tests' own.
final class WriterProcess {
    struct CanNotStart: Error, CustomStringConvertible {
        let description: String
    }

    let pid: pid_t
    private var input: CInt
    private let output: CInt
    private var pending: [UInt8] = []
    private var isReaped = false
    private static let starting = NSLock()

    /// SwiftPM puts the programs of a package beside its tests.
    private static var program: String {
        get throws {
            let tests = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
            return URL(fileURLWithPath: tests).deletingLastPathComponent().path + "/FileStoreWriter"
        }
    }

    init(_ arguments: [String]) throws {
        let program = try Self.program
        // One at a time, so that no other program gets the ends of our pipes before they are marked.
        Self.starting.lock()
        defer { Self.starting.unlock() }
        var (input, output): ([CInt], [CInt]) = ([-1, -1], [-1, -1])
        guard pipe(&input) == 0, pipe(&output) == 0 else {
            throw CanNotStart(description: "no pipe: \(String(cString: strerror(errno)))")
        }
        for end in input + output { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, input[0], 0)
        posix_spawn_file_actions_adddup2(&actions, output[1], 1)
        let words = ([program] + arguments).map { strdup($0) }
        defer { for word in words { free(word) } }
        var pid: pid_t = 0
        let status = posix_spawn(&pid, program, &actions, nil, words + [nil], environ)
        close(input[0])
        close(output[1])
        self.pid = pid
        self.input = input[1]
        self.output = output[0]
        guard status == 0 else {
            isReaped = true
            throw CanNotStart(description: "\(program) does not start: \(String(cString: strerror(status)))")
        }
    }

    deinit {
        if !isReaped { kill() }
        begin()
        close(output)
    }

    /// The next line it prints; `nil` at the end.
    func line() -> String? {
        while true {
            if let end = pending.firstIndex(of: UInt8(ascii: "\n")) {
                defer { pending.removeSubrange(...end) }
                return String(decoding: pending[..<end], as: UTF8.self)
            }
            var chunk = [UInt8](repeating: 0, count: 4096)
            let count = read(output, &chunk, chunk.count)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return nil }
            pending += chunk[..<count]
        }
    }

    /// Lets it begin, where it waits for the end of its input. It has no other input.
    func begin() {
        if input >= 0 { close(input) }
        input = -1
    }

    /// Signal 9, and waits for its end.
    func kill() {
        Glibc.kill(pid, SIGKILL)
        wait()
    }

    /// Whether it has come to its end by itself.
    var hasEnded: Bool {
        if !isReaped, waitpid(pid, nil, WNOHANG) == pid { isReaped = true }
        return isReaped
    }

    /// Waits for its end: what waitpid(2) says.
    @discardableResult
    func wait() -> CInt {
        var status: CInt = 0
        while waitpid(pid, &status, 0) < 0, errno == EINTR {}
        isReaped = true
        return status
    }
}

/// Runs blocking work on a thread of its own.
func onThread<Output: Sendable>(_ work: @escaping @Sendable () throws -> Output) async throws -> Output {
    try await withCheckedThrowingContinuation { continuation in
        Thread { continuation.resume(with: Result { try work() }) }.start()
    }
}
