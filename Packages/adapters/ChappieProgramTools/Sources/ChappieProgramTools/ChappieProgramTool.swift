public import ChappieClient
@_spi(ChappieInternals) public import ChappieCore
@_spi(ChappieInternals) import ChappieProcess
import Synchronization

/// A program as a tool: the arguments as JSON on its standard input, its standard output as the result. With a
/// ``textFormat`` it gets the text that the model wrote, as it is.
///
/// ```swift
/// let weather = ChappieProgramTool(
///     name: "weather", description: "The weather in a town.",
///     inputSchema: ["type": "object", "properties": ["town": ["type": "string"]]],
///     path: "/usr/local/bin/weather", policy: .automatic)
/// let client = Chappie.client(tools: [weather.hostTool])
/// ```
/// It is started without a shell, for each call anew, in a session of its own. If its call is cancelled, or its output
/// is over the limit, it gets SIGTERM, and a second later SIGKILL with its whole process group.
public struct ChappieProgramTool: Sendable, Hashable {
    /// The tool's name for the model: 1 to 64 letters, digits, `_` and `-`.
    public var name: String
    /// Explains to the model when to use it.
    public var description: String
    /// The arguments that it takes: a JSON Schema of an object.
    public var inputSchema: ChappieJSONValue
    /// The form of the free text that it gets instead of JSON arguments; `nil`, the default, for JSON arguments.
    public var textFormat: ChappieToolTextFormat?
    /// The program's absolute path.
    public var path: String
    /// The program's own arguments. Every process of the machine can read them: never a secret.
    public var arguments: [String]
    /// All variables that it gets.
    public var environment: [String: String]
    /// The program's working directory; `nil` means this process's own.
    public var workingDirectory: String?
    /// Whether the user is asked before each call.
    public var policy: ChappieToolPolicy
    /// The longest time for a call.
    public var timeout: Duration
    /// Whether no other tool runs beside it.
    public var runsAlone: Bool
    /// The most output that is read, in bytes; a program that prints more is ended. The model gets the ends of it if it is
    /// longer than the `outputLimit` of ``hostTool``.
    public var outputLimit: Int

    /// A program that is not started yet.
    ///
    /// - Parameters:
    ///   - name: see ``name``.
    ///   - description: see ``description``. Default empty.
    ///   - inputSchema: see ``inputSchema``. Default: no arguments.
    ///   - path: see ``path``.
    ///   - arguments: see ``arguments``. Default none.
    ///   - environment: variables beside this process's `PATH`, `HOME` and `LANG`, which they may replace. Default none.
    ///   - workingDirectory: see ``workingDirectory``. Default `nil`.
    ///   - policy: see ``policy``. Default `.ask`.
    ///   - timeout: see ``timeout``. Default 60 seconds.
    ///   - runsAlone: see ``runsAlone``. Default `false`.
    ///   - outputLimit: see ``outputLimit``. Default 256 KiB.
    public init(
        name: String, description: String = "", inputSchema: ChappieJSONValue? = nil, path: String,
        arguments: [String] = [], environment: [String: String] = [:], workingDirectory: String? = nil,
        policy: ChappieToolPolicy = .ask, timeout: Duration = .seconds(60), runsAlone: Bool = false,
        outputLimit: Int = 256 << 10
    ) {
        self.init(
            name: name, description: description, inputSchema: inputSchema,
            invocation: ProgramInvocation(
                path: path, arguments: arguments,
                environment: ProgramInvocation.cleanEnvironment(adding: environment),
                workingDirectory: workingDirectory),
            policy: policy, timeout: timeout, runsAlone: runsAlone, outputLimit: outputLimit)
    }

    init(
        name: String, description: String = "", inputSchema: ChappieJSON? = nil, invocation: ProgramInvocation,
        policy: ChappieToolPolicy = .ask, timeout: Duration = .seconds(60), runsAlone: Bool = false,
        outputLimit: Int = 256 << 10
    ) {
        self.name = name
        self.description = description
        self.inputSchema = inputSchema ?? ChappieHarnessTool.noArguments
        path = invocation.path
        arguments = invocation.arguments
        environment = invocation.environment
        workingDirectory = invocation.workingDirectory
        self.policy = policy
        self.timeout = timeout
        self.runsAlone = runsAlone
        self.outputLimit = outputLimit
    }

    /// How long a program has to end after SIGTERM.
    private static let grace = Duration.seconds(1)

    /// The tool for a client.
    public var hostTool: ChappieHostTool {
        if let textFormat {
            return ChappieHostTool(
                name: name, description: description, textFormat: textFormat, policy: policy, timeout: timeout,
                runsAlone: runsAlone
            ) { call in try await run(on: Array(call.arguments.utf8)) }
        }
        return ChappieHostTool(
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
    /// - Parameter input: the arguments of a call.
    /// - Returns: its output; a failure, with the end of its standard error, if it exits with another code than 0,
    ///   can't be started or prints too much.
    /// - Throws: `CancellationError` when the task is cancelled. The program has ended then, and its process group with it.
    public func run(_ input: ChappieJSONValue) async throws -> ChappieToolResult {
        try await run(on: input.serializedBytes() + [UInt8(ascii: "\n")])
    }

    private func run(on input: [UInt8]) async throws -> ChappieToolResult {
        let invocation = ProgramInvocation(
            path: path, arguments: arguments, environment: environment, workingDirectory: workingDirectory)
        let run = ProgramOutput(outputLimit: outputLimit)
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

    /// Waits in a task of its own, which nothing cancels: this process may end a moment later.
    private func end(_ program: PipedProgram, _ run: ProgramOutput) async {
        program.end(patience: .zero, grace: Self.grace)
        _ = await uncancelled { try? await run.exitCode.value() }
    }
}

/// The output of a program so far, and its end.
private final class ProgramOutput: Sendable {
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
        // Bytes that are not UTF-8, such as half of the last character, become U+FFFD.
        let text = String(decoding: output.prefix(limit), as: UTF8.self)
        if isTooMuch {
            return ChappieToolResult(
                output: text + "\n[The tool was ended: its output is larger than \(limit) bytes.]", isError: true)
        }
        let code = code.withLock(\.self)
        guard code != 0 else { return ChappieToolResult(output: text) }
        let cause = code > 128 ? "was ended by the signal \(code - 128)" : "failed with the exit code \(code)"
        let words = String(decoding: errors, as: UTF8.self).split(separator: "\n").suffix(20).joined(separator: "\n")
        let parts = ["The tool \(cause).", words, text].filter { !$0.isEmpty }
        return ChappieToolResult(output: parts.joined(separator: "\n"), isError: true)
    }
}
