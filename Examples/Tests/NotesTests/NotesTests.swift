import ChappieSDK
import ChappieSDKTesting
import Notes
import Testing

@Test func theTitleIsTheFirstLineOfTheAnswer() async {
    let notes = Notes(client: .answering("Shopping\n(I hope you like it)"))
    #expect(await notes.title(of: "milk, eggs") == "Shopping")
}

@Test func aTopicIsDecoded() async throws {
    let notes = Notes(client: .answering(#"{"title": "Shopping", "tags": ["food"]}"#))
    #expect(try await notes.topic(of: "milk, eggs").tags == ["food"])
}

@Test func aTopicThatDoesNotFitSaysWhere() async {
    let notes = Notes(client: .answering(#"{"title": "Shopping", "tags": [1]}"#))
    await #expect {
        _ = try await notes.topic(of: "milk, eggs")
    } throws: { error in
        guard case .invalidStructuredOutput(let violation, _) = error as? ChappieClientError else { return false }
        return violation.path == "/tags/0"
    }
}

@MainActor @Test func aReturningUserIsSignedIn() {
    #expect(SeededAuth().session().state.isSignedIn)
}
