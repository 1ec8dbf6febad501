public import ChappieCore

/// A failure of a Model Context Protocol server: the kind, the server, and the reason.
public struct ChappieMCPError: Error, Sendable, Hashable {
    /// The kind of failure. Unknown values are kept.
    public struct Code: RawRepresentable, Sendable, Hashable, Codable {
        public let rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }

        /// The program could not be started, or the server's name is not valid for a group of tools.
        public static let notStarted = Code(rawValue: "notStarted")
        /// The server refused the handshake, or supports no version of the protocol that this client knows.
        public static let handshakeFailed = Code(rawValue: "handshakeFailed")
        /// The server has ended, closed its output, or cannot be reached. The next turn starts it again.
        public static let ended = Code(rawValue: "ended")
        /// The server had ended the session, and did not take the request in another one.
        public static let sessionEnded = Code(rawValue: "sessionEnded")
        /// The server did not answer in time.
        public static let timedOut = Code(rawValue: "timedOut")
        /// The server does not follow the protocol, or sends more than the limits allow.
        public static let protocolViolation = Code(rawValue: "protocolViolation")
        /// The server answered a request with an error.
        public static let refused = Code(rawValue: "refused")
        /// The server requires a sign-in, or its sign-in has ended. See ``ChappieMCPAuthorization``.
        public static let signInNeeded = Code(rawValue: "signInNeeded")
        /// The server requires more permissions for the request than its sign-in has.
        public static let permissionNeeded = Code(rawValue: "permissionNeeded")
        /// The sign-in at the server cannot be made, renewed, stored or read.
        public static let signInFailed = Code(rawValue: "signInFailed")
        /// The sign-in at ChatGPT does not include connected apps. See ``ChappieConnectedApps``.
        public static let appsNotIncluded = Code(rawValue: "appsNotIncluded")
        /// The host has closed the server.
        public static let closed = Code(rawValue: "closed")
    }

    /// The kind of failure.
    public let code: Code
    /// The name that the host gave the server.
    public let server: String
    /// The reason as one plain clause, without a full stop.
    public let reason: String
    /// The last lines of the server's standard error, cleaned for display. It is empty if the server wrote none.
    public let lastWords: String
    /// The addresses that the server asks the user to open before it carries out the request, cleaned for display.
    public let addresses: [String]

    /// Creates an error with the given properties.
    public init(
        _ code: Code, server: String, reason: String, lastWords: String = "", addresses: [String] = []
    ) {
        self.addresses = addresses
        self.code = code
        self.server = server
        self.reason = reason
        self.lastWords = lastWords
    }

    func adding(lastWords: String) -> ChappieMCPError {
        ChappieMCPError(code, server: server, reason: reason, lastWords: lastWords, addresses: addresses)
    }
}

extension ChappieMCPError: ChappieError {
    public var errorDescription: String? {
        (code == .appsNotIncluded
            ? "This sign-in doesn't include connected apps." : "The tool server \(server): \(reason).")
            + (addresses.isEmpty ? "" : " It asks you to open: \(addresses.joined(separator: " , "))")
            + (lastWords.isEmpty ? "" : " It said: \(lastWords)")
    }

    /// Advice for the user.
    public var recoverySuggestion: String? {
        switch code {
        case .notStarted: "Check the server's command, its working directory and its name."
        case .handshakeFailed: "Check that the program is a Model Context Protocol server, and update it."
        case .ended, .sessionEnded: "It is started again at the next turn. A call that was under way is not repeated."
        case .timedOut: "Check what the server waits for, or allow it more time."
        case .protocolViolation:
            "Check that it sends nothing but the protocol: a program to its standard output, a server from its address."
        case .signInNeeded: "Sign in to the server."
        case .permissionNeeded: "Sign in to the server again, with these permissions."
        case .appsNotIncluded: "The service decides which sign-ins include them. Ask without them."
        case .signInFailed: "Nothing was changed. Check the server's address, or ask its operator."
        default: nil
        }
    }
}
