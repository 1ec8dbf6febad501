import Foundation
import Synchronization

/// A program that was started with pipes of its own. Its functions block.
struct Launch: Sendable {
    let process: Process
    let output: FileHandle

    private static let isStarting = Mutex(())

    /// - Parameters:
    ///   - input: What it reads from its standard input, which then ends.
    ///   - errors: Where its standard error goes; `nil`: with its output.
    init(
        _ tool: Tool, _ arguments: [String], environment: [String: String], input: String, errors: FileHandle? = nil
    ) throws {
        let process = Process()
        process.executableURL = try tool.path()
        process.arguments = arguments
        process.environment = environment
        // One at a time: another program that is started between the two steps would inherit this one's pipes, and
        // neither of them would come to its end before that other program.
        let (inputPipe, outputPipe) = try Self.isStarting.withLock { _ in
            let (inputPipe, outputPipe) = (Pipe(), Pipe())
            process.standardInput = inputPipe
            process.standardOutput = outputPipe
            process.standardError = errors ?? outputPipe
            try process.run()
            return (inputPipe, outputPipe)
        }
        try inputPipe.fileHandleForWriting.write(contentsOf: Data(input.utf8))
        try inputPipe.fileHandleForWriting.close()
        self.process = process
        output = outputPipe.fileHandleForReading
    }
}
