/// One event of an event stream (WHATWG HTML, 9.2).
public struct ServerSentEvent: Sendable, Hashable {
    /// The `event` field; `message` when there was none.
    public var type: String
    /// The `data` fields, joined by line feeds; bytes that are not UTF-8 show as U+FFFD.
    public var data: String
    /// The last `id` field seen so far in the stream; empty when there was none.
    public var lastEventID: String

    public init(type: String = "message", data: String, lastEventID: String = "") {
        self.type = type
        self.data = data
        self.lastEventID = lastEventID
    }
}
