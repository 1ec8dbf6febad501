import ChappieCore
import ChappieObservability
import InMemoryTracing
import MetricsTestKit
import Tracing

/// An observer whose metrics and spans stay in memory.
struct Harness {
    let metrics = TestMetrics()
    let tracer = InMemoryTracer()
    let observer: ChappieObservability

    init(agentName: String? = nil, toolNames: Set<String> = []) {
        observer = ChappieObservability(
            agentName: agentName, toolNames: toolNames, factory: metrics, tracer: tracer)
    }

    static let request = ChappieObservedRequest(model: "gpt-6-sol", host: "chatgpt.com", port: 443)

    /// The metrics of this name: their dimensions in one line each, sorted.
    func series(_ label: String) -> [String] {
        let all =
            metrics.recorders(label: label).map(\.dimensions) + metrics.counters(label: label).map(\.dimensions)
            + metrics.meters(label: label).map(\.dimensions)
        return all.map { $0.map { "\($0.0)=\($0.1)" }.joined(separator: " ") }.sorted()
    }

    /// Every name and value of every metric and span.
    var everything: String {
        var text = ""
        for recorder in metrics.recorders { text += "\(recorder.label) \(recorder.dimensions)\n" }
        for counter in metrics.counters { text += "\(counter.label) \(counter.dimensions)\n" }
        for meter in metrics.meters { text += "\(meter.label) \(meter.dimensions)\n" }
        for span in tracer.finishedSpans {
            text += "\(span.operationName) \(span.events.map(\.name)) \(String(describing: span.status))"
            span.attributes.forEach { text += " \($0)=\($1)" }
            text += " \(span.errors.map { "\($0.error)" })\n"
        }
        return text
    }

    /// The attributes of the only finished span of this name.
    func attributes(_ name: String) -> [String: String] {
        var found: [String: String] = [:]
        tracer.finishedSpans.first { $0.operationName == name }?.attributes.forEach { found[$0] = Self.text($1) }
        return found
    }

    private static func text(_ attribute: SpanAttribute) -> String {
        switch attribute {
        case .string(let value): value
        case .stringArray(let values): values.joined(separator: ",")
        case .int64(let value): "\(value)"
        case .int32(let value): "\(value)"
        case .double: "seconds"
        case .bool(let value): "\(value)"
        default: "\(attribute)"
        }
    }
}
