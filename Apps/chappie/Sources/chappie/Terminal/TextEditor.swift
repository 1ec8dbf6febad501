@_spi(ChappieInternals) import ChappieFiles
import ChappieSDK
import FoundationEssentials
import Glibc
import Synchronization
import SystemPackage

/// The user's editor, which `$VISUAL` or `$EDITOR` names.
struct TextEditor: Sendable {
    private let command: String
    /// The folders in the order in which they are tried.
    private let folders: [String]
    private let console: Console

    /// - Throws: ``CommandLineError`` if no editor is named. An editor that the user did not choose would be
    ///   unexpected.
    init(_ environment: ProgramEnvironment, _ console: Console) throws {
        let commands = try [environment.path("VISUAL"), environment.path("EDITOR")].compactMap(\.self)
        guard let command = commands.first(where: { $0.contains { !$0.isWhitespace } }) else {
            throw CommandLineError.usage("There is no editor.", suggestion: "Set EDITOR, for example to nano or vim.")
        }
        self.command = command
        folders = [environment["XDG_RUNTIME_DIR"], environment["TMPDIR"], "/tmp"].compactMap(\.self)
        self.console = console
    }

    /// Lets the user edit `text` in a separate file. The file is removed as soon as `use` has the new text. If something
    /// goes wrong before, the file stays, and the error names it.
    ///
    /// - Throws: ``CommandLineError`` if the editor cannot be started or reports a failure, `CancellationError`, or the
    ///   errors of `use`.
    func edit<Output>(
        _ text: [UInt8], ending: String, _ use: (_ edited: [UInt8]) async throws -> Output
    ) async throws -> Output {
        let path = try draft(of: text, named: "chappie-\(UUID().uuidString)\(ending)")
        let start = ContinuousClock.now
        do {
            try await run(on: path)
            let edited = try WholeFile.read(path)
            let output = try await use(edited)
            if edited == text, ContinuousClock.now - start < .seconds(1) {
                console.note(
                    "The editor ended at once. If it opens a window, add its option to wait, for example "
                        + "EDITOR='code --wait'. What you save is in \(path).")
            } else {
                unlink(path)
            }
            return output
        } catch {
            guard let edited = try? WholeFile.read(path), edited != text else {
                unlink(path)
                throw error
            }
            guard !(error is CancellationError) else { throw error }
            var problem = CommandLineError(error)
            let place = "Your text is in \(path)."
            problem.suggestion = problem.suggestion.map { "\($0) \(place)" } ?? place
            throw problem
        }
    }

    private func run(on path: String) async throws {
        console.clearStatus()
        try await console.drained()
        // During the edit, Ctrl-C belongs to the editor.
        let former = Interruption.takesCtrlC.withLock { handler in
            defer { handler = { true } }
            return handler
        }
        defer { Interruption.takesCtrlC.withLock { $0 = former } }
        let status = try await onThread { [command] in try Self.run(command, path) }
        guard status == 0 else {
            throw CommandLineError.usage(
                "The editor (\(command)) ended with status \(status), so its text is not used.",
                suggestion: "Check EDITOR.")
        }
    }

    /// Creates the file in the first folder that accepts it. When a login ends, the system removes its folder, but the
    /// variable remains.
    private func draft(of text: [UInt8], named name: String) throws -> String {
        var reasons: [String] = []
        for folder in folders {
            let path = "\(folder)/\(name)"
            // A relative path would have another meaning if the editor changes its folder.
            do throws(Errno) {
                guard folder.hasPrefix("/") else { throw .invalidArgument }
                try PrivateFile.create(path, with: text)
                return path
            } catch {
                reasons.append("\(folder) (\(error))")
            }
        }
        throw CommandLineError.usage(
            "The text for the editor can't be written in \(reasons.joined(separator: ", ")).",
            suggestion: "Set TMPDIR to a folder that you may write to.")
    }

    /// Runs the command in a shell, as git and others do, because the variable may contain arguments.
    private static func run(_ command: String, _ path: String) throws -> CInt {
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var usual = sigset_t()
        sigemptyset(&usual)
        sigaddset(&usual, SIGPIPE)
        posix_spawnattr_setsigdefault(&attributes, &usual)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGDEF))
        let words = ["/bin/sh", "-c", "\(command) \"$1\"", "sh", path]
        let arguments: [UnsafeMutablePointer<CChar>?] = words.map { strdup($0) } + [nil]
        defer { for argument in arguments { free(argument) } }
        var child = pid_t()
        let problem = posix_spawn(&child, "/bin/sh", nil, &attributes, arguments, environ)
        guard problem == 0 else {
            throw CommandLineError.usage("The editor can't be started: \(String(cString: strerror(problem))).")
        }
        var status: CInt = 0
        while waitpid(child, &status, 0) < 0, errno == EINTR {}
        // A shell reports the number of a signal in this form.
        return status & 0x7F == 0 ? (status >> 8) & 0xFF : 128 + (status & 0x7F)
    }
}
