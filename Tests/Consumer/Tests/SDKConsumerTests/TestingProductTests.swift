import ChappieSDK
import ChappieSDKTesting
import Testing

@Test func theTestingProductLinksBesideTheSDK() {
    #expect(ChappieConfiguration().model == nil)
    #expect(SeededAuth().email == "person@example.com")
}

@MainActor @Test func aSignedInSessionAndAnAnswerTakeALineEach() async throws {
    #expect(SeededAuth().session().state.isSignedIn)
    #expect(try await ChappieClient.answering("Hello").send("Hi") == "Hello")
}
