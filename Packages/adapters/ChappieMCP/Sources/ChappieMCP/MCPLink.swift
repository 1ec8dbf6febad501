@_spi(ChappieInternals) public import ChappieCore
import HTTPTypes

/// A link that carries messages to a server and ends together with it.
@_spi(ChappieInternals) public protocol MCPLink: AnyObject, Sendable {
    /// Sends the message after all earlier messages, without waiting. Returns `false` if the server no longer reads
    /// messages.
    func send(_ message: ChappieJSON) -> Bool
    /// Ends the link. A program has `patience` to end by itself, and then `grace` after SIGTERM.
    func end(patience: Duration, grace: Duration)
}

/// An event that a link reports.
@_spi(ChappieInternals) public enum MCPLinkEvent: Sendable {
    /// Bytes of messages. Each message ends with a line feed.
    case bytes([UInt8])
    /// Bytes of the server's standard error.
    case errors([UInt8])
    /// The server has closed its output. It may still be running.
    case outputEnded
    /// The request with this number has no answer.
    case lost(Int, ChappieMCPError.Code, String)
    /// The server has ended, for this reason. This is the last event.
    case ended(String)
}

/// A way to reach a server: as a program (ChappieProgramTools) or over HTTP.
@_spi(ChappieInternals) public struct MCPServerStart: Sendable {
    /// The reason why a link could not be opened, as one clause without a full stop.
    public struct Failure: Error {
        let reason: String

        /// Creates a failure for this reason.
        public init(_ reason: String) { self.reason = reason }
    }

    /// Opens a link, which reports its events to `receive`.
    ///
    /// - Parameter unread: the number of bytes that may wait until the server reads them.
    public typealias Open =
        @Sendable (
            _ largestMessage: Int, _ unread: Int, _ receive: @escaping @Sendable (MCPLinkEvent) -> Void
        ) throws(Failure) -> any MCPLink

    /// The line of the log about the start.
    let note: String
    /// The program with its arguments, or the address. An approval of a tool is valid only for this.
    let origin: String
    /// Whether the server announces changes of its list. Otherwise the list is requested in every turn.
    let announcesChanges: Bool
    /// The capabilities that the client states in the handshake.
    var capabilities: ChappieJSON = [:]
    /// The texts that the log leaves out.
    let secrets: [String]
    let open: Open

    /// Creates a way to reach a server.
    public init(note: String, origin: String, announcesChanges: Bool, secrets: [String], open: @escaping Open) {
        self.note = note
        self.origin = origin
        self.announcesChanges = announcesChanges
        self.secrets = secrets
        self.open = open
    }

    /// Returns the way to reach a server over HTTP.
    static func http(_ endpoint: MCPEndpoint) -> MCPServerStart {
        MCPServerStart(
            note: "it is asked at \(endpoint.url.host() ?? "no host")", origin: endpoint.url.absoluteString,
            announcesChanges: false,
            secrets: endpoint.headerFields.flatMap { field in
                [field.value] + field.value.split(separator: " ").map(String.init)
            }
        ) { largestMessage, _, receive in MCPHTTPLink(endpoint, limit: largestMessage, receive: receive) }
    }
}
