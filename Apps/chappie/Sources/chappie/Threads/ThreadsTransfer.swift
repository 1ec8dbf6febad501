public import ArgumentParser
@_spi(ChappieInternals) import ChappieFiles
@_spi(ChappieInternals) import ChappieRuntime
import ChappieSDK
import ChappieThreadForms
import ChappieThreadsSQLite
import Glibc

// Commands that write threads to files, and read them from there.
extension Threads {
    struct Export: ProgramCommand {
        static let configuration = CommandConfiguration(
            commandName: "export", abstract: "Write a thread as JSON, JSON lines, Markdown or a page for browsers.",
            discussion: """
                json and jsonl are complete, and import reads them. An export is not encrypted; a file is for you \
                alone. Without --format its name decides: .json, .jsonl, .md, .html. The page has the pictures inside. \
                Markdown in a file has them in files next to it, named after the thread, and printed Markdown has a line \
                for each. --all writes a file for each thread into the folder of -o, or prints one after the other.
                """)

        @OptionGroup var options: GlobalOptions

        @Option(help: "json, jsonl, markdown or html (default: by the file's name, else json).")
        var format: ChappieThreadFormat?

        @Option(
            name: .shortAndLong,
            help: ArgumentHelp("Write into this file instead of printing.", valueName: "file"), completion: .file())
        var output: String?

        @Flag(help: "Every thread, including archived ones.")
        var all = false

        @Argument(help: "The thread (default: the last one).", completion: .threads)
        var thread: String?

        func validate() throws {
            if all, thread != nil { throw ValidationError("--all and a thread name different things.") }
        }

        func run(in program: Program) async throws {
            if all { return try await exportAll(program) }
            let target = try output.flatMap {
                $0 == "-" ? nil : try OutputFile($0, outside: program.environment.threadsFolder, isPrivate: true)
            }
            let store = try Threads.store(program)
            let found = try await store.readableThread(store.thread(named: thread).id)
            let thread = found.thread
            let format = format ?? output.flatMap(ChappieThreadFormat.init(fileName:)) ?? .json
            let pictures = target.map { PictureFiles(nextTo: $0.path, outside: program.environment.threadsFolder) }
            let text = try format.text(of: thread, pictures)
            if let target {
                try await target.write(text)
                program.console.note("The thread is in \(target.path), not encrypted.")
            } else {
                program.console.write(text)
            }
            if let problem = found.problem {
                program.console.note("chappie: \(problem.words)")
                throw ExitCode(ExitStatus.badData.rawValue)
            }
        }

        private func exportAll(_ program: Program) async throws {
            let store = try Threads.store(program)
            let format = format ?? .json
            let folder = output.flatMap { $0 == "-" ? nil : $0 }
            let storeFolder = program.environment.threadsFolder
            if let folder {
                try storeFolder.refuse(folder)
                if mkdir(folder, 0o700) != 0, errno != EEXIST {
                    throw CommandLineError.usage("\(folder) can't be created: \(String(cString: strerror(errno))).")
                }
                FileDraft.removeAbandoned(in: folder) { name in
                    ChappieThreadFormat(fileName: name) == format
                        && ChappieThread.canHaveID(String(name.dropLast(format.fileExtension.count + 1)))
                }
            }
            let found = try await store.readableThreads()
            var problems = found.problems
            var count = 0
            defer {
                if let folder { program.console.note("\(count) threads are in \(folder), not encrypted.") }
                for problem in problems {
                    program.console.note("chappie: \(problem.words)")
                }
            }
            for summary in found.threads.latestFirst(includeArchived: true) {
                try Task.checkCancellation()
                let thread: ChappieThread
                do {
                    let found = try await store.readableThread(summary.id)
                    thread = found.thread
                    if let problem = found.problem, !problems.contains(problem) { problems.append(problem) }
                } catch {
                    // Another process may have deleted the thread.
                    guard error.concernsOneThread else { throw error }
                    problems.append(error)
                    continue
                }
                if let folder {
                    let name = ChappieThread.canHaveID(thread.id) ? thread.id : "unusual-id-\(count + 1)"
                    let file = "\(folder)/\(name).\(format.fileExtension)"
                    let text = try format.text(of: thread, PictureFiles(nextTo: file, outside: storeFolder))
                    try await OutputFile(file, outside: storeFolder, isPrivate: true, clearsDrafts: false).write(text)
                } else {
                    program.console.write(format.text(of: thread))
                }
                count += 1
            }
            if !problems.isEmpty { throw ExitCode(ExitStatus.badData.rawValue) }
        }
    }

    struct Import: ProgramCommand {
        static let configuration = CommandConfiguration(
            commandName: "import", abstract: "Import exported threads, or threads of other programs.",
            discussion: """
                Takes what export gives as json or jsonl, sessions of the Codex CLI (~/.codex/sessions), the log database \
                of llm (logs.db), and ChatGPT's own export (its zip file, or conversations.json). A folder is searched for \
                these files. \
                Conversations are imported one by one. A thread that you imported before gets its new messages. If you \
                continued it here, that copy is kept next to it. What is left out is named. The exit status is 65 if \
                something of it is damaged, or if a path gives no thread. The rest is then imported. \
                With --json: {"imported":[…],"updated":[…],"present":[…],"left_out":{…}}.
                """)

        @OptionGroup var options: GlobalOptions

        @Argument(help: "The files, or folders with them.", completion: .file())
        var files: [String]

        func run(in program: Program) async throws {
            let store = try Threads.store(program)
            var report = ImportReport(store: program.environment.threadsFolder)
            defer { report.say(program) }
            var problems: [ChappieThreadImportError] = []
            for path in files {
                try program.environment.threadsFolder.refuse(path)
                do {
                    try await report.keep(path, in: store)
                } catch let error as ChappieThreadImportError {
                    problems.append(error)
                }
            }
            for problem in problems.dropLast() { program.console.note("chappie: \(problem.errorDescription ?? "")") }
            if let last = problems.last { throw last }
            if report.hasDamage {
                program.console.note("chappie: Not everything could be read. The rest was imported.")
                throw ExitCode(ExitStatus.badData.rawValue)
            }
        }
    }
}

extension ChappieThreadFormat: @retroactive ExpressibleByArgument {
    /// The file name extension for this form.
    fileprivate var fileExtension: String { self == .markdown ? "md" : rawValue }

    /// Returns the thread in this form. The pictures of Markdown are written first, so that it never refers to a file
    /// that is missing.
    fileprivate func text(of thread: ChappieThread, _ files: PictureFiles?) throws -> String {
        guard self == .markdown, let files, files.arePossible else { return text(of: thread) }
        let (text, pictures) = Self.markdownWithPictures(of: thread)
        for picture in pictures { try files.write(picture) }
        return text
    }
}

/// The pictures next to a file of Markdown.
private struct PictureFiles {
    private let folder: String
    private let store: ThreadsFolder
    /// Whether there can be files next to it. Next to a pipe or a device there can't.
    let arePossible: Bool

    init(nextTo path: String, outside store: ThreadsFolder) {
        self.store = store
        folder = path.lastIndex(of: "/").map { String(path[...$0]) } ?? ""
        var facts = stat()
        let isRegular = stat(path, &facts) != 0 || facts.st_mode & S_IFMT == S_IFREG
        arePossible = isRegular && !path.hasPrefix("/dev/") && !path.hasPrefix("/proc/")
    }

    /// Writes a picture that only this user can read. A picture of an earlier export of the thread is replaced.
    func write(_ picture: ChappieThreadPicture) throws {
        let path = folder + picture.fileName
        try store.refuse(path)
        do {
            try FileDraft(of: path).replace(with: picture.bytes, isDurable: false)
        } catch {
            throw CommandLineError(
                .unavailable, code: "output_failed", "\(path) can't be written: \(error).",
                suggestion: "Name a file in a folder that you may write to.")
        }
    }
}
