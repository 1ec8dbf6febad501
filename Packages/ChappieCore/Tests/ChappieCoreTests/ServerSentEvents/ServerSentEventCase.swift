@_spi(ChappieInternals) import ChappieCore
import Testing

/// One stream and the events it holds.
struct ServerSentEventCase: Sendable, CustomTestStringConvertible {
    let name: String
    let input: [UInt8]
    let events: [ServerSentEvent]

    var testDescription: String { name }

    init(_ name: String, _ input: String, _ events: [ServerSentEvent]) {
        self.init(name, Array(input.utf8), events)
    }

    init(_ name: String, _ input: [UInt8], _ events: [ServerSentEvent]) {
        self.name = name
        self.input = input
        self.events = events
    }

    /// A case whose events have nothing but data.
    init(_ name: String, _ input: String, data: [String]) {
        self.init(name, input, data.map { ServerSentEvent(data: $0) })
    }

    /// A case whose events have nothing but data.
    init(_ name: String, bytes input: [UInt8], data: [String]) {
        self.init(name, input, data.map { ServerSentEvent(data: $0) })
    }
}
