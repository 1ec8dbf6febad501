@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
import ChappieSDK
import FoundationEssentials
import Glibc
import Synchronization
import SystemPackage

/// The log of one tool server for `--tool-log`, in a separate file that only this user can open.
final class ToolLog: Sendable {
    /// The maximum size of a log, in bytes. A log that already has this size begins again. A log that reaches it ends
    /// with a line that reports this.
    static let limit = 10 << 20

    private struct State {
        let file: Descriptor
        var size: Int
    }

    private let state: Mutex<State>

    /// Opens the log of `server` in `folder`, which is created if it is missing.
    ///
    /// - Throws: ``CommandLineError`` for a file that cannot be written or that other users can open.
    init(of server: String, in folder: String) throws {
        let path = "\(folder)/\(server).log"
        PrivateFile.makeFolder(of: path)
        let file: Descriptor, facts: stat
        do {
            file = try Descriptor(path, .writeOnly, [.create, .append, .noFollow, .nonBlocking])
            facts = try file.status()
        } catch {
            throw CommandLineError.usage(
                "The log \(path) can't be written: \(error).", suggestion: "Name another folder: --tool-log FOLDER.")
        }
        guard facts.st_mode & S_IFMT == S_IFREG, facts.st_uid == geteuid(), facts.st_mode & 0o077 == 0 else {
            throw CommandLineError.usage(
                "The log \(path) is not a regular file that only you can open.", suggestion: "chmod 600 \(path)")
        }
        var size = Int(facts.st_size)
        if size >= Self.limit, ftruncate(file.number, 0) == 0 { size = 0 }
        state = Mutex(State(file: file, size: size))
    }

    /// Adds a line that begins with the time. If the disk is full, only the line is lost.
    func write(_ line: String) {
        let text =
            "\(Date().formatted(.iso8601.year().month().day().time(includingFractionalSeconds: true)))Z \(line)\n"
        state.withLock { state in
            guard state.size < Self.limit else { return }
            state.size += text.utf8.count
            let isFull = state.size >= Self.limit
            let bytes = Array((isFull ? text + "The log ends here: it has \(Self.limit >> 20) MiB.\n" : text).utf8)
            try? state.file.write(bytes)
        }
    }
}
