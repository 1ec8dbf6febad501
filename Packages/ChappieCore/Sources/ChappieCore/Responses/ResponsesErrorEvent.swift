/// An `error` event: the HTTP error that the request would have had.
public struct ResponsesErrorEvent: Sendable, Hashable {
    /// `status`, else `status_code`; `nil` when the event has neither.
    public var status: Int?
    public var error: ChappieResponseError
    /// `headers`, for usage limits and `retry-after`.
    public var headers: ChappieJSON
    /// The whole event.
    public var raw: ChappieJSON

    init(_ json: ChappieJSON) {
        status = json["status"]?.int ?? json["status_code"]?.int
        if let error = json["error"], !error.isNull {
            self.error = ChappieResponseError(error)
        } else {
            error = ChappieResponseError(json)
            // `error` is the type of the event, not of what went wrong.
            error.type = nil
        }
        headers = json["headers"] ?? .null
        raw = json
    }
}
