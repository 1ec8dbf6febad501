/// One answered request, as a log may show it: nothing of its query, header or body.
public struct SimulatorExchange: Sendable, Hashable {
    /// Details of a request that came as a WebSocket message.
    public struct WebSocketDetails: Sendable, Hashable {
        /// Whether it only warms up (`generate: false`).
        public let isPrewarm: Bool
        /// Whether it starts from the response before (`previous_response_id`).
        public let isIncremental: Bool
        /// Items of its own input, without those it starts from.
        public let inputItemCount: Int
        /// Whether it came compressed.
        public let isCompressed: Bool
        /// Bytes of the message.
        public let payloadByteCount: Int
        /// Bytes it took on the wire.
        public let wireByteCount: Int
        /// Which connection it came on: as ``ReceivedRequest/connection``.
        public let connection: Int
    }

    /// The caller, in a simulator of several accounts.
    public struct Caller: Sendable, Hashable {
        /// The account whose token it was, and not the one that the request itself names.
        public let accountID: String
        /// The header field `session-id`; of a WebSocket message that of the handshake.
        public let sessionID: String?
    }

    /// The method; for a WebSocket message `POST`, or `PREWARM` when it only warms up.
    public let method: String
    /// The path without the query.
    public let path: String
    /// The status answered, or the one an error message names; `nil` when the connection was closed or left silent
    /// instead.
    public let status: Int?
    /// Whether a rule of the scenario applied.
    public let isScripted: Bool
    /// `nil` for requests of HTTP.
    public let webSocket: WebSocketDetails?
    /// `nil` where only one account can sign in, and for a request without a known token.
    public let caller: Caller?

    /// Such as `POST /oauth/token 200`, or
    /// `POST /backend-api/codex/responses 200 (websocket 3, incremental, 1 item, 812 bytes as 405)`; with several accounts
    /// followed by ` as ACCOUNT` and, where there is one, ` in SESSION`.
    public var line: String {
        "\(method) \(path) \(status.map { String($0) } ?? "no answer")\(webSocket?.words ?? "")\(caller?.words ?? "")"
            + (isScripted ? " (scenario)" : "")
    }
}

extension SimulatorExchange.Caller {
    fileprivate var words: String { " as \(accountID)" + (sessionID.map { " in \($0)" } ?? "") }
}

extension SimulatorExchange.WebSocketDetails {
    fileprivate var words: String {
        let items = "\(inputItemCount) item\(inputItemCount == 1 ? "" : "s")"
        let bytes = isCompressed ? "\(payloadByteCount) bytes as \(wireByteCount)" : "\(payloadByteCount) bytes"
        return " (websocket \(connection), \(isIncremental ? "incremental" : "whole"), \(items), \(bytes))"
    }
}
