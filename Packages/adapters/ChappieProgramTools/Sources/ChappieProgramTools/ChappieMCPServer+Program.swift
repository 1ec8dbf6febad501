@_spi(ChappieInternals) public import ChappieCore
@_spi(ChappieInternals) public import ChappieMCP
import ChappieProcess

extension ChappieMCPServer {
    /// Creates a server that is a program on this machine, without starting it.
    ///
    /// ```swift
    /// let files = ChappieMCPServer(command: ["mcp-server-filesystem", "/srv/notes"], name: "files")
    /// defer { files.close() }
    /// let tools = try await files.tools()       // starts it
    /// ```
    ///
    /// The first call of `tools()` starts the program without a shell and in its own session. If the program has ended,
    /// the next turn starts it again. At `close()`, its input ends, then the program and its process group get SIGTERM
    /// after 2 seconds, and SIGKILL after 2 more seconds.
    ///
    /// - Parameters:
    ///   - command: the program and its arguments. A name without a slash is looked up in `PATH`. A relative path
    ///     begins at `workingDirectory`. Other processes of the machine can read arguments, so secrets belong in
    ///     `environment`.
    ///   - environment: variables in addition to `PATH`, `HOME` and `LANG`, which they may replace. Default: none.
    ///   - workingDirectory: the folder that the program starts in. Default `nil`: this process's folder.
    ///   - name: the name of the group that contains the tools for the model: letters, digits, `_` and `-`, at most 64.
    ///   - policy: whether the user is asked before each call. Default `.ask`.
    ///   - startTimeout: the limit for the start with the handshake, and for each list. Default 30 seconds.
    ///   - callTimeout: the limit of a call, of reading and of prompts. Each report of progress restarts it, up to 12
    ///     times its length. Default 5 minutes.
    ///   - allowedTools: the names of the only tools that are offered. Default `nil`: all of them. A name that the
    ///     server does not have is in `skippedTools`.
    ///   - deniedTools: the names of tools that are not offered, although they may be allowed. Default: none.
    ///   - log: receives the log line by line, without line feeds. The log contains the standard error of the program
    ///     and an outline of the messages with methods, sizes, times and failures, but without contents, arguments and
    ///     header fields. It omits variables and header fields that the server repeats, and text that looks like a
    ///     secret. The closure is called on several threads and delays the server. Default `nil`: no log.
    public convenience init(
        command: [String], environment: [String: String] = [:], workingDirectory: String? = nil, name: String,
        policy: ChappieToolPolicy = .ask, startTimeout: Duration = .seconds(30), callTimeout: Duration = .seconds(300),
        allowedTools: Set<String>? = nil, deniedTools: Set<String> = [], log: (@Sendable (String) -> Void)? = nil
    ) {
        self.init(
            start: .program(command, environment: environment, workingDirectory: workingDirectory), name: name,
            policy: policy, startTimeout: startTimeout, callTimeout: callTimeout, allowedTools: allowedTools,
            deniedTools: deniedTools, log: log)
    }
}

@_spi(ChappieInternals) extension MCPServerStart {
    /// Returns the way to start a program and to speak to it over its standard input and output.
    public static func program(
        _ command: [String], environment: [String: String] = [:], workingDirectory: String? = nil
    ) -> MCPServerStart {
        MCPServerStart(
            note: "its program starts", origin: ([workingDirectory ?? ""] + command).joined(separator: "\0"),
            announcesChanges: true,
            secrets: Array(environment.filter { !ProgramInvocation.passedVariables.contains($0.key) }.values)
        ) { _, unread, receive throws(Failure) in
            do throws(StartFailure) {
                let invocation = try ProgramInvocation(
                    command: command, environment: ProgramInvocation.cleanEnvironment(adding: environment),
                    workingDirectory: workingDirectory)
                return try ProgramLink(
                    PipedProgram(invocation, inputLimit: unread, endsGroup: true) { receive(MCPLinkEvent($0)) })
            } catch {
                throw Failure(error.reason)
            }
        }
    }
}

/// A link over a program's standard input and output.
private final class ProgramLink: MCPLink {
    private let program: PipedProgram

    init(_ program: PipedProgram) { self.program = program }

    func send(_ message: ChappieJSON) -> Bool { program.send(message.serializedBytes() + [UInt8(ascii: "\n")]) }

    func end(patience: Duration, grace: Duration) { program.end(patience: patience, grace: grace) }
}

extension MCPLinkEvent {
    fileprivate init(_ event: PipedProgram.Event) {
        self =
            switch event {
            case .output(let bytes): .bytes(bytes)
            case .errors(let bytes): .errors(bytes)
            case .outputEnded: .outputEnded
            case .ended(let code):
                .ended(
                    "it has ended, " + (code > 128 ? "by the signal \(code - 128)" : "with the exit code \(code)"))
            }
    }
}
