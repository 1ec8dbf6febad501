import ChappieAuth
import ChappieFoundationModels
import Testing

#if canImport(FoundationModels, _version: 2)
    import FoundationModels
#elseif canImport(FoundationModelsStandIn)
    import FoundationModelsStandIn
#endif

/// Signing in.
@MainActor
@Suite(.timeLimit(.minutes(2))) struct SignInTests {
    @Test func `a sign-in shows its code once, and the session then answers`() async throws {
        let user = try await SignedInModel(isSignedIn: false)
        #expect(await user.model.account == nil)
        var codes: [String] = []
        let first = Task { try await user.model.authenticateIfNeeded { codes.append($0.userCode) } }
        let second = Task { try await user.model().authenticateIfNeeded { codes.append($0.userCode) } }
        try await first.value
        try await second.value
        try await user.model.authenticateIfNeeded { codes.append($0.userCode) }
        #expect(codes.count == 1)
        #expect(await user.model.account != nil)
        let session = LanguageModelSession(model: user.model)
        #expect(try await session.respond(to: "reply: one").content == "one")
    }
}
