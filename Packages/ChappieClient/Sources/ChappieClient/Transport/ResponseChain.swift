import ChappieCore

/// What one connection's last response stands for, so that the next request may say only what is new; sans-IO.
///
/// A request continues the last one when everything but the input is the same and the input begins with the last input and
/// the items that were answered. (The backend's own rules, as the Codex CLI keeps them; what is not compared there is not
/// compared here.)
struct ResponseChain: Sendable {
    private struct Link {
        var responseID: String
        var frame: ChappieJSONObject
        var history: [ChappieJSON]
    }

    private var link: Link?

    private static let notCompared: Set<String> = [
        "input", "client_metadata", "stream_options", "access_programs", "generate", "previous_response_id",
    ]

    /// Nothing can be continued.
    mutating func broke() { link = nil }

    /// A response to the whole request `body` is complete.
    ///
    /// - Parameters:
    ///   - id: the response's; an empty one can't be continued.
    ///   - items: what it answered, as it came.
    mutating func completed(_ body: ChappieJSONObject, id: String, items: [ChappieOutputItem]) {
        guard !id.isEmpty else { return link = nil }
        link = Link(
            responseID: id, frame: Self.frame(of: body), history: (body["input"]?.array ?? []) + items.map(\.json))
    }

    /// `body` as a request of this connection: with `previous_response_id` and the new items only, where it continues the
    /// last response, else whole.
    func request(_ body: ChappieJSONObject) -> (body: ChappieJSONObject, isIncremental: Bool) {
        let input = body["input"]?.array ?? []
        guard let link, input.count > link.history.count, input.starts(with: link.history),
            Self.frame(of: body) == link.frame
        else { return (body, false) }
        var members: [ChappieJSONObject.Member] = []
        for member in body.members {
            guard member.name == "input" else {
                members.append(member)
                continue
            }
            members.append(.init(name: "previous_response_id", value: .string(link.responseID)))
            members.append(.init(name: "input", value: .array(Array(input.dropFirst(link.history.count)))))
        }
        return (ChappieJSONObject(members: members), true)
    }

    private static func frame(of body: ChappieJSONObject) -> ChappieJSONObject {
        ChappieJSONObject(members: body.members.filter { !notCompared.contains($0.name) })
    }
}
