import ChappieSDK

/// An app's own type: it takes a client, so that its tests can give it another.
public struct Notes: Sendable {
    let client: ChappieClient

    public init(client: ChappieClient) { self.client = client }

    /// What a note is about, as a form that the app can use.
    public struct Topic: Decodable, ChappieJSONSchemaProviding, Sendable, Equatable {
        public var title: String
        public var tags: [String]
    }

    public func topic(of note: String) async throws -> Topic {
        try await client.send("What is this note about?\n\n\(note)", as: Topic.self)
    }

    /// A title to show: the first line of the answer, or of the note where there is none.
    public func title(of note: String) async -> String {
        let answer = try? await client.send("A title for this note, nothing else:\n\n\(note)")
        return String((answer ?? note).prefix { $0 != "\n" })
    }
}
