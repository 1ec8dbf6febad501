import ArgumentParser
import ChappieAuth
import ChappieCore
import ChappieCrypto
import ChappieRuntime
import ChappieSDK
@_spi(ChappieInternals) import ChappieThreadsSQLite

// Copies of all threads with their key.
extension Threads {
    struct Backup: ProgramCommand {
        static let configuration = CommandConfiguration(
            commandName: "backup", abstract: "Write all threads and their key into one file, under a passphrase.",
            discussion: """
                The key is in the credential store alone, and not in a backup of your home: without it the threads can't \
                be read. The passphrase has 8 bytes or more. The file is encrypted and for you alone. An existing file is replaced after the new one is complete, and a link leads to \
                its target. Devices and pipes are refused. With --json: {"file":…}.
                """)

        @OptionGroup var options: GlobalOptions
        @OptionGroup var passphraseOptions: BackupPassphrase

        @Argument(help: "The file.", completion: .file())
        var file: String

        func run(in program: Program) async throws {
            let store = try Threads.store(program)
            guard file != "-" else {
                throw CommandLineError.usage("A backup is not written to standard output.", suggestion: "Name a file.")
            }
            try program.environment.threadsFolder.refuse(file)
            let passphrase = try await passphraseOptions.passphrase(for: .creating(file))
            try await store.backup(to: file, passphrase: passphrase)
            program.say(["file": .string(file)], "All threads are in \(file), with their key under your passphrase.")
        }
    }

    struct Restore: ProgramCommand {
        static let configuration = CommandConfiguration(
            commandName: "restore", abstract: "Add the threads of a backup, and the key if it is gone.",
            discussion: """
                Nothing is replaced: a thread that is there gets what it lacks, and stays as it is if it was continued. \
                Threads that can't be read are named (exit status 65). If the store can't be opened, its file is moved aside \
                and a new one begins. With --json: {"imported":[…],"updated":[…],"present":[…],"problems":[…]}, and \
                "damaged_file":… if a file was moved aside.
                """)

        @OptionGroup var options: GlobalOptions
        @OptionGroup var passphraseOptions: BackupPassphrase

        @Argument(help: "The file that backup wrote.", completion: .file())
        var file: String

        func run(in program: Program) async throws {
            let store = try Threads.store(program)
            let passphrase = try await passphraseOptions.passphrase(for: .opening(file))
            var restored = ChappieRestoredThreads()
            do {
                try await store.restore(from: file, passphrase: passphrase, noting: &restored)
            } catch {
                // The threads that have been restored remain.
                if !restored.threads.isEmpty || !restored.problems.isEmpty || restored.damagedFile != nil {
                    Self.say(restored, program)
                }
                throw await explained(error, of: store)
            }
            Self.say(restored, program)
            if !restored.problems.isEmpty { throw ExitCode(ExitStatus.badData.rawValue) }
        }

        /// Returns an error that names the backup, if its passphrase or its version is the cause.
        private func explained(
            _ error: ChappieThreadStoreError, of store: ChappieFileThreadStore
        ) async -> any Error {
            switch error {
            case .locked(let reason) where reason.contains(file):
                CommandLineError(
                    .unavailable, code: "wrong_passphrase", "\(file) can't be opened: \(reason).",
                    suggestion: "Try again with the passphrase that the backup was written with.")
            // A store that opens is not the one that is too new.
            case .tooNew(let found, let known) where (try? await store.usage()) != nil:
                CommandLineError(
                    .badData, code: "newer_format",
                    "\(file) was written by a newer version of this program (format \(found), this version knows \(known)).",
                    suggestion: error.recoverySuggestion)
            default: error
            }
        }

        private static func say(_ restored: ChappieRestoredThreads, _ program: Program) {
            let problems = restored.problems.map(\.words)
            var more: [(String, ChappieJSON)] = [("problems", .array(problems.map { .string($0) }))]
            if let file = restored.damagedFile {
                more.append(("damaged_file", .string(file)))
                program.console.note("The store could not be opened. It is now \(file), and a new one begins.")
            }
            ThreadUpdates(threads: restored.threads).say(program, "Restored", more: more)
            for problem in problems { program.console.note("chappie: \(problem)") }
        }
    }
}

/// The passphrase of a backup, from a file or from the terminal.
struct BackupPassphrase: ParsableArguments {
    @Option(
        help: ArgumentHelp("Read the passphrase from this file, which only you can read.", valueName: "file"),
        completion: .file())
    var passphraseFile: String?

    /// The shortest passphrase of a new backup, in bytes.
    private static let minimum = 8

    func passphrase(for purpose: PassphrasePurpose) async throws -> Secret {
        let source: any PassphraseSource = passphraseFile.map { PassphraseFile(path: $0) } ?? TerminalPassphrase()
        guard let passphrase = try await source.passphrase(for: purpose) else {
            throw CommandLineError.usage(
                "A backup needs a passphrase, and there is no terminal to ask on.", suggestion: "Use --passphrase-file."
            )
        }
        if case .creating = purpose, passphrase.count < Self.minimum {
            throw CommandLineError.usage(
                "The passphrase has fewer than \(Self.minimum) bytes.",
                suggestion: "Use a longer one. Whoever finds the backup can try passphrases without a limit.")
        }
        return passphrase
    }
}
