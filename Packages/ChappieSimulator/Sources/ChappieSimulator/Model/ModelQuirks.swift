/// How the model may differ from what it usually says.
struct ModelQuirks: Sendable, Hashable {
    /// Pieces of text after which it goes on with other words; `nil` for its own words to the end.
    var divergesAfter: Int?
}

extension Reply {
    /// The same reply, with other words after some pieces of its text: what an answer that is asked for again may be.
    func changed(by quirks: ModelQuirks) -> Reply {
        guard let kept = quirks.divergesAfter else { return self }
        return Reply(
            outputs: outputs.map { output in
                guard case .message(let pieces) = output else { return output }
                let others = ["Or, ", "to ", "put ", "it ", "another ", "way."]
                return .message(pieces: pieces.prefix(kept) + others)
            })
    }
}
