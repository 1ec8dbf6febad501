import ChappieTesting
import Testing

@_spi(ChappieInternals) @testable import ChappieAuth

/// What asks the system for time in the background, and until when.
@MainActor
@Suite struct BackgroundTimeTests {
    private let system = RecordingBackgroundTime()

    private func manager(_ stand: Harness) -> CredentialManager {
        CredentialManager(
            slot: stand.slot, store: stand.store, transport: stand.service.transport, endpoints: Service.endpoints,
            clock: stand.clock, backgroundTime: system)
    }

    @Test func `a renewal has time until its tokens are stored`() async throws {
        let (token, save) = (ScriptedGate(), ScriptedGate())
        let stand = Harness(
            person(endingIn: -1),
            [Service.token: [.tokens(person(endingIn: 9000, serial: 2)).after(token)], Service.backend: [.ok]])
        stand.store.wait(at: save, before: .save)
        let manager = manager(stand)
        let request = Task { try await manager.authorization.authorized { _ in AuthorizedAttempt.value(1) } }
        await token.reached()
        #expect(system.held == ["storing a sign-in"])
        token.open()
        await save.reached()
        #expect(system.held == ["storing a sign-in"])
        save.open()
        _ = try await request.value
        await manager.settle()
        #expect(system.held.isEmpty && system.asked == ["storing a sign-in"])
    }

    @Test(arguments: [true, false])
    func `a sign-in has time from its code to its end`(_ isApproved: Bool) async throws {
        let stand = Harness(
            nil, SessionHarness.signingIn(pending: isApproved ? 1 : 1000, as: person(endingIn: 7200)))
        let session = ChappieAuthSession(credentials: manager(stand))
        #expect(system.asked.isEmpty)
        let updates = session.deviceLinkStateUpdates
        try await session.startDeviceCodeSignIn()
        #expect(system.held == ["signing in"])
        if isApproved {
            await stand.clock.waitForSleepers(count: 1)
            stand.clock.advance(by: .seconds(10))
        } else {
            session.cancelSignIn()
        }
        _ = await updates.next { $0.isEnd }
        while !system.held.isEmpty { await Task.yield() }
    }

    @Test func `a request with a valid token asks for nothing`() async throws {
        let stand = Harness(person(endingIn: 7200), [Service.backend: [.ok]])
        _ = try await manager(stand).authorization.authorized { _ in AuthorizedAttempt.value(1) }
        #expect(system.asked.isEmpty)
    }
}
