public import ChappieCore
public import HTTPTypes

/// What a ``ScriptedHTTPTransport`` does with one request.
public struct ScriptedHTTPAnswer: Sendable {
    /// One thing that happens to an exchange.
    public enum Step: Sendable {
        /// Delivers these bytes; an empty chunk is no chunk.
        case chunk([UInt8])
        /// Goes on when the test opens the gate.
        case wait(until: ScriptedGate)
        /// Breaks the connection. Later steps don't happen.
        case cut
        /// Nothing more happens, until the request's own deadline for this stage passes or the exchange is cancelled.
        case stall
        /// Fails with this. Later steps don't happen.
        case fail(ChappieTransportError)
    }

    /// What happens before there is a response head; a chunk here means nothing.
    public var beforeHead: [Step]
    /// The status of the answer.
    public var status: HTTPResponse.Status
    /// The header fields of the answer.
    public var headerFields: HTTPFields
    public var body: [Step]

    /// An answer with this status, these fields and this body.
    public init(
        beforeHead: [Step] = [], status: HTTPResponse.Status = .ok, headerFields: HTTPFields = [:], body: [Step] = []
    ) {
        self.beforeHead = beforeHead
        self.status = status
        self.headerFields = headerFields
        self.body = body
    }

    /// A whole response, its body in one chunk.
    public static func response(
        status: HTTPResponse.Status = .ok, headerFields: HTTPFields = [:], body: String = ""
    ) -> ScriptedHTTPAnswer {
        ScriptedHTTPAnswer(status: status, headerFields: headerFields, body: [.chunk(Array(body.utf8))])
    }

    /// No response at all.
    public static func failure(_ error: ChappieTransportError) -> ScriptedHTTPAnswer {
        ScriptedHTTPAnswer(beforeHead: [.fail(error)])
    }
}
