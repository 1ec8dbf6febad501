@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieProcess

/// Carries messages to a server, and ends with it.
protocol MCPLink: AnyObject, Sendable {
    /// Sends the message after those before it; it does not wait. `false` if the server reads no more.
    func send(_ message: ChappieJSON) -> Bool
    /// Ends it: a program has this time to end by itself, and again after SIGTERM.
    func end(patience: Duration, grace: Duration)
}

extension PipedProgram: MCPLink {
    func send(_ message: ChappieJSON) -> Bool { send(message.serializedBytes() + [UInt8(ascii: "\n")]) }
}
