public import ChappieCore

/// An error of a simulator that could not start, or of a scenario that can't be played.
public struct SimulatorError: Error, Sendable, Hashable {
    /// The kind of error.
    public enum Code: String, Sendable, Hashable, Codable {
        /// Another program listens on the port.
        case portInUse
        /// The port requires rights that this process doesn't have (below 1024).
        case portDenied
        /// The host is not a loopback address.
        case notLoopback
        /// The socket could not be opened for another reason.
        case listenFailed
        /// A setting is out of bounds.
        case invalidConfiguration
        /// No built-in scenario has that name.
        case unknownScenario
        /// The scenario is not JSON, or a member of it is wrong. The message names the key path.
        case invalidScenario
        /// The scenario affects bytes on a wire, but the simulator is in memory.
        case needsSocket
        /// No sign-in is waiting for that code.
        case unknownUserCode
        /// No account has that id.
        case unknownAccount
    }

    /// The kind of error.
    public let code: Code
    /// One clause in plain language, without a final full stop.
    public let reason: String

    /// Creates an error of this kind.
    public init(_ code: Code, reason: String) {
        self.code = code
        self.reason = reason
    }
}

extension SimulatorError: ChappieError {
    /// The reason as a sentence.
    public var errorDescription: String? { reason + "." }

    /// Advice for the caller.
    public var recoverySuggestion: String? {
        switch code {
        case .portInUse: "Stop the other program, choose another port, or use port 0 for any free one."
        case .portDenied: "Choose a port above 1023, or use port 0 for any free one."
        case .notLoopback: "Use 127.0.0.1, ::1 or localhost: the simulator is for this machine only."
        case .listenFailed: "Choose another port or address."
        case .invalidConfiguration: "Correct the setting."
        case .unknownScenario: "Choose one of the built-in names, or give the path of a JSON file."
        case .invalidScenario: "Correct the scenario file; SCENARIOS.md beside the package describes every member."
        case .needsSocket:
            "Play it with `chappie simulator --scenario`, or with ChappieSimulatorServer's `Simulator`."
        case .unknownUserCode: "Check the code; codes are valid for 15 minutes and work once."
        case .unknownAccount: "Name the account's id as the configuration has it."
        }
    }
}
