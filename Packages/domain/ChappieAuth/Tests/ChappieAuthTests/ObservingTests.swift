import ChappieCore
import ChappieTesting
import FoundationEssentials
import HTTPTypes
import Testing

@_spi(ChappieInternals) @testable import ChappieAuth

/// An observer receives what happens to a credential.
@Suite(.timeLimit(.minutes(2))) struct CredentialObservingTests {
    private let observer = RecordingObserver()

    private func renewed(_ serial: Int) -> [String: [ScriptedHTTPAnswer]] {
        [Service.token: [.response(body: person(endingIn: 7200, serial: serial).tokenAnswer)]]
    }

    @Test(arguments: [(10.0, ChappieRenewalReason.due), (-10, .ended)])
    func `a renewal has its reason and its end`(seconds: TimeInterval, reason: ChappieRenewalReason) async throws {
        let harness = Harness(person(endingIn: seconds), renewed(2), observer: observer)
        try await harness.send()
        #expect(observer.operations == [.renewal(reason)])
        #expect(observer.endedCount == 1 && observer.failures.isEmpty)
        #expect(observer.facts == [.lockAwaited(.zero, isHeld: true)])
    }

    @Test func `a refused renewal is a failed one`() async {
        let refusal = ScriptedHTTPAnswer.response(status: .badRequest, body: #"{"error":"invalid_grant"}"#)
        let harness = Harness(person(endingIn: -10), [Service.token: [refusal]], observer: observer)
        _ = try? await harness.send()
        #expect(observer.operations == [.renewal(.ended)])
        #expect(observer.failures.map { ($0 as? ChappieAuthError)?.requiresReauthentication } == [true])
    }

    @Test func `a renewal by another process is taken over`() async throws {
        let harness = Harness(person(endingIn: -10), renewed(2))
        let other = harness.otherManager(observer: observer)
        _ = try await other.accountInfo()
        try await harness.send()
        _ = try await other.authorization.ask(Service.backendRequest, over: harness.service.transport)
        #expect(observer.operations.isEmpty)
        #expect(observer.facts.contains(.renewalTakenOver(.due)), "\(observer.facts)")
    }

    /// A store whose lease another machine has taken over.
    private struct Overtaken: CredentialStore {
        let store: InMemoryCredentialStore
        func load(_ slot: CredentialSlot) async throws(CredentialStoreError) -> Secret? { try await store.load(slot) }
        func save(_ secret: Secret, in slot: CredentialSlot) async throws(CredentialStoreError) { throw .overtaken }
        func delete(_ slot: CredentialSlot) async throws(CredentialStoreError) { throw .overtaken }
        func prepareToSave(in slot: CredentialSlot) async throws(CredentialStoreError) {}
    }

    @Test func `a change that another machine has taken over is reported`() async {
        let harness = Harness(person(endingIn: -10), renewed(2))
        let manager = harness.otherManager(store: Overtaken(store: harness.store), observer: observer)
        _ = try? await manager.authorization.ask(Service.backendRequest, over: harness.service.transport)
        #expect(observer.facts.contains(.credentialOvertaken), "\(observer.facts)")
        await #expect(throws: CredentialStoreError.self) { try await manager.signOut() }
        #expect(observer.facts.last == .signOutEnded(.failed))
    }

    @Test func `an import is a sign-in`() async throws {
        let harness = Harness(nil, observer: observer)
        _ = try await harness.manager.importCredential(person(endingIn: 7200).credential)
        #expect(observer.facts.last == .signInEnded(.import, .succeeded))
        await #expect(throws: CredentialStoreError.self) {
            try await harness.manager.importCredential(Secret(Array("no document".utf8)))
        }
    }

    @Test @MainActor func `a sign-in that fails or is cancelled is reported`() async {
        let harness = Harness(
            nil, [Service.usercode: [.response(status: .internalServerError, body: "")]], observer: observer)
        let session = ChappieAuthSession(credentials: harness.manager)
        _ = try? await session.signIn { _ in }
        #expect(observer.facts.last == .signInEnded(.device, .failed))
    }
}
