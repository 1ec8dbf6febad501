@_spi(ChappieInternals) public import ChappieClient
@_spi(ChappieInternals) public import ChappieCore
import ChappieProcess
import Synchronization

/// A program as a tool. It receives the arguments as JSON on its standard input, and its standard output is the result.
/// With a ``textFormat``, it receives the text that the model wrote, unchanged.
///
/// ```swift
/// let weather = ChappieProgramTool(
///     name: "weather", description: "The weather in a town.",
///     inputSchema: ["type": "object", "properties": ["town": ["type": "string"]]],
///     path: "/usr/local/bin/weather", policy: .automatic)
/// let client = Chappie.client(tools: [weather.hostTool])
/// ```
/// The program is started again for each call, without a shell, in its own session. If its call is cancelled, or its
/// output exceeds the limit, it receives SIGTERM. One second later, it receives SIGKILL together with its entire
/// process group.
public struct ChappieProgramTool: Sendable, Hashable {
    /// The tool's name for the model, which has 1 to 64 letters, digits, `_` and `-`.
    public var name: String
    /// The description that explains to the model when to use the tool.
    public var description: String
    /// The arguments that the tool accepts, as a JSON Schema of an object.
    public var inputSchema: ChappieJSONValue
    /// The format of the free text that the tool receives instead of JSON arguments. `nil`, which is the default, means
    /// JSON arguments.
    public var textFormat: ChappieToolTextFormat?
    /// The program's absolute path.
    public var path: String
    /// The program's own arguments. They must not contain a secret, because every process of the machine can read them.
    public var arguments: [String]
    /// All variables that the program receives.
    public var environment: [String: String]
    /// The program's working directory, or `nil` for this process's own.
    public var workingDirectory: String?
    /// Whether the user is asked before each call.
    public var policy: ChappieToolPolicy
    /// The maximum time for a call.
    public var timeout: Duration
    /// Whether no other tool runs at the same time.
    public var runsAlone: Bool
    /// The maximum number of bytes of output that are read. A program that prints more is ended. If the output is
    /// longer than the `outputLimit` of ``hostTool``, the model receives the beginning and the end of it.
    public var outputLimit: Int

    /// Creates a tool. The program is not started yet.
    ///
    /// - Parameters:
    ///   - name: See ``name``.
    ///   - description: See ``description``. The default is empty.
    ///   - inputSchema: See ``inputSchema``. By default, there are no arguments.
    ///   - path: See ``path``.
    ///   - arguments: See ``arguments``. By default, there are none.
    ///   - environment: Variables in addition to this process's `PATH`, `HOME` and `LANG`, which they may replace. By
    ///     default, there are none.
    ///   - workingDirectory: See ``workingDirectory``. The default is `nil`.
    ///   - policy: See ``policy``. The default is `.ask`.
    ///   - timeout: See ``timeout``. The default is 60 seconds.
    ///   - runsAlone: See ``runsAlone``. The default is `false`.
    ///   - outputLimit: See ``outputLimit``. The default is 256 KiB.
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

    /// The time that a program has to end after SIGTERM.
    private static let grace = Duration.seconds(1)

    /// The tool for a client.
    public var hostTool: ChappieHostTool {
        var tool = madeTool
        tool.isDeferrable = true
        tool.origin = ([workingDirectory ?? "", path] + arguments).joined(separator: "\0")
        return tool
    }

    private var madeTool: ChappieHostTool {
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
    /// - Parameter input: The arguments of a call.
    /// - Returns: The output of the program. If the program exits with a code other than 0, can't be started or prints
    ///   too much, the result is a failure with the end of its standard error.
    /// - Throws: `CancellationError` if the task is cancelled. The program and its process group have then ended.
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
            // The output exceeds the limit, or is complete.
            let isTooMuch = try await run.isTooMuch.value()
            if isTooMuch { await end(program, run) }
            return run.result(isTooMuch: isTooMuch, outputLimit)
        } catch {
            await end(program, run)
            throw error
        }
    }

    /// Ends the program and waits for its end. The wait is in a separate task, which nothing cancels, because this
    /// process may end soon afterwards.
    private func end(_ program: PipedProgram, _ run: ProgramOutput) async {
        program.end(patience: .zero, grace: Self.grace)
        _ = await uncancelled { try? await run.exitCode.value() }
    }
}

/// The output of a program so far, and its exit code.
private final class ProgramOutput: Sendable {
    private let said = Mutex<(output: [UInt8], errors: [UInt8])>(([], []))
    private let outputLimit: Int
    /// A promise that is fulfilled at the end, or earlier if the output exceeds its limit.
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
