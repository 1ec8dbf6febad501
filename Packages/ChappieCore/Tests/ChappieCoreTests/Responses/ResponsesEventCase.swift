@_spi(ChappieInternals) import ChappieCore
import Testing

/// One payload and the event that it is; `nil` for a payload that says nothing.
struct ResponsesEventCase: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let payload: String
    let event: ResponsesEvent?

    init(_ description: String, _ payload: String, _ event: ResponsesEvent?) {
        testDescription = description
        self.payload = payload
        self.event = event
    }

    /// An event that is kept whole.
    static func other(_ type: String, _ payload: String) -> ResponsesEventCase {
        ResponsesEventCase(type, payload, .other(type: type, json(payload)))
    }
}
