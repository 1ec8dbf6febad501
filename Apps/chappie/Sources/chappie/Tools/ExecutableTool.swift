@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieProcess
import ChappieSDK
import Synchronization

/// A program as a tool: the arguments as JSON on its standard input, its standard output as the result.
struct ExecutableTool: Sendable, Hashable {
    var name: String
    var description = ""
    var inputSchema: ChappieJSON = ["type": "object", "properties": [:]]
    var invocation: ProgramInvocation
    var policy = ChappieToolPolicy.ask
    var timeout = Duration.seconds(60)
    var runsAlone = false
    /// The output that the model is given, in bytes; a program that prints more is ended.
    var outputLimit = 256 << 10

    /// How long a program has to end after SIGTERM.
    private static let grace = Duration.seconds(1)

    var hostTool: ChappieHostTool {
        ChappieHostTool(
            name: name, description: description, inputSchema: inputSchema, policy: policy, timeout: timeout,
            runsAlone: runsAlone
        ) { call in
            guard let arguments = call.argumentsJSON else {
                return ChappieToolResult(output: "The arguments are not JSON.", isError: true)
            }
            return try await run(arguments)
        }
    }

    /// Runs the program once.
    ///
    /// - Returns: its output; a failure, with the end of its standard error, for another exit code than 0, and for one that
    ///   can't be started or prints too much.
    /// - Throws: `CancellationError` when the task is cancelled. The program has ended then, and its process group with it.
    func run(_ arguments: ChappieJSON) async throws -> ChappieToolResult {
        let input = arguments.serializedBytes() + [UInt8(ascii: "\n")]
        let run = Run(outputLimit: outputLimit)
        let program: PipedProgram
        do throws(StartFailure) {
            program = try PipedProgram(invocation, inputLimit: input.count, endsGroup: false) { run.received($0) }
        } catch {
            return ChappieToolResult(output: "The tool can't be started: \(error.reason).", isError: true)
        }
        _ = program.send(input)
        program.closeInput()
        do {
            // The output is too much, or whole.
            let isTooMuch = try await run.isTooMuch.value()
            if isTooMuch { await end(program, run) }
            return run.result(isTooMuch: isTooMuch, outputLimit)
        } catch {
            await end(program, run)
            throw error
        }
    }

    /// In a task of its own, which nothing cancels: this process may end a moment later.
    private func end(_ program: PipedProgram, _ run: Run) async {
        program.end(patience: .zero, grace: Self.grace)
        await Task { _ = try? await run.exitCode.value() }.value
    }
}

/// The output of a program so far, and its end.
private final class Run: Sendable {
    private let said = Mutex<(output: [UInt8], errors: [UInt8])>(([], []))
    private let outputLimit: Int
    /// Fulfilled at the end, and before when the output is over its limit.
    let isTooMuch = Promise<Bool>()
    let exitCode = Promise<Int32>()
    private let code = Mutex<Int32>(0)

    init(outputLimit: Int) { self.outputLimit = outputLimit }

    func received(_ event: PipedProgram.Event) {
        switch event {
        case .output(let bytes):
            let isOver = said.withLock { said in
                said.output += bytes.prefix(outputLimit + 1 - said.output.count)
                return said.output.count > outputLimit
            }
            if isOver { isTooMuch.fulfil(.success(true)) }
        case .errors(let bytes): said.withLock { $0.errors = Array(($0.errors + bytes).suffix(4096)) }
        case .outputEnded: break
        case .ended(let code):
            self.code.withLock { $0 = code }
            exitCode.fulfil(.success(code))
            isTooMuch.fulfil(.success(false))
        }
    }

    func result(isTooMuch: Bool, _ limit: Int) -> ChappieToolResult {
        let (output, errors) = said.withLock { $0 }
        // Bytes that are no UTF-8, such as half of the last character, become U+FFFD.
        let text = String(decoding: output.prefix(limit), as: UTF8.self)
        if isTooMuch {
            return ChappieToolResult(
                output: text + "\n[The tool was ended: its output is over \(limit) bytes.]", isError: true)
        }
        let code = code.withLock(\.self)
        guard code != 0 else { return ChappieToolResult(output: text) }
        let cause = code > 128 ? "was ended by the signal \(code - 128)" : "failed with the exit code \(code)"
        let words = String(decoding: errors, as: UTF8.self).split(separator: "\n").suffix(20).joined(separator: "\n")
        let parts = ["The tool \(cause).", words, text].filter { !$0.isEmpty }
        return ChappieToolResult(output: parts.joined(separator: "\n"), isError: true)
    }
}
