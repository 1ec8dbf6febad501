@_spi(ChappieInternals) import ChappieClient
@_spi(ChappieInternals) import ChappieCore
import ChappieSDK
import FoundationEssentials

/// A question that is shown and not sent.
struct DryRun {
    /// The model, or `nil` if the account's list decides.
    var model: String?
    /// The conversation so far, and the messages of the question.
    var items: [ChappieJSON]
    /// The names of the tools. Those of servers are not among them, because no server is started.
    var tools: [String]
    var schema: ChappieJSON?

    private var estimatedTokens: Int {
        let extra = schema.map { [$0] } ?? []
        return ChappieClientContext(
            sessionID: "", model: "", items: items + extra, compactedSummary: nil, createdAt: Date(), updatedAt: Date()
        ).estimatedTokens
    }

    var json: ChappieJSON {
        var object: ChappieJSONObject = [
            "model": .optional(model), "input": .array(items), "tools": .array(tools.map { .string($0) }),
        ]
        object["schema"] = schema
        object["estimated_tokens"] = .integer(estimatedTokens)
        return .object(object)
    }

    /// The messages as text, each under its role.
    var text: String {
        items.map { item in
            let head = item["role"]?.string ?? item["type"]?.string ?? ""
            let parts = (item["content"]?.array ?? []).map { part in
                part["text"]?.string ?? "(\(part["type"]?.string ?? "another part"))"
            }
            return "\(head): \(parts.joined())\n"
        }.joined(separator: "\n")
    }

    /// The size of what would be sent, as a sentence.
    var sentence: String {
        let name = model.map { " to \($0)" } ?? ""
        let also = tools.isEmpty ? "" : ", and the tools \(tools.joined(separator: ", "))"
        return "about \(estimatedTokens) tokens would be sent\(name)\(also). Nothing was sent."
    }
}
