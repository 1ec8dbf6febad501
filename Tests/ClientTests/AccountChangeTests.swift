import ChappieAuth
import ChappieClient
import ChappieCore
import ChappieTesting
import FoundationEssentials
import HTTPTypes
import Synchronization
import Testing

/// What becomes of a client's work when another account takes its slot.
@Suite struct AccountChangeTests {
    /// Another account, and another person in the same account (a workspace).
    enum Newcomer: CaseIterable, Sendable { case account, person }

    private struct Setting {
        let clock = ManualClock()
        let transport: ScriptedHTTPTransport
        let manager: CredentialManager
        let client: ChappieClient
        let first: SeededAuth
        let other: SeededAuth

        /// - Parameter answers: one after the other; the last one for ever.
        init(_ newcomer: Newcomer, _ answers: ScriptedHTTPAnswer...) {
            let left = Mutex(answers)
            var first = SeededAuth(expiresAt: clock.now.addingTimeInterval(86_400))
            first.refreshToken = "rt_first"
            var other = first
            other.serial = 2
            other.refreshToken = "rt_other"
            other.userID = "user-2"
            if newcomer == .account { other.accountID = "account-2" }
            (self.first, self.other) = (first, other)
            transport = ScriptedHTTPTransport(clock: clock) { request in
                guard !request.url.path().hasSuffix("/revoke") else { return .response() }
                return left.withLock { $0.count > 1 ? $0.removeFirst() : $0[0] }
            }
            manager = first.manager(transport: transport, clock: clock)
            client = ChappieClient(
                configuration: ChappieConfiguration(streamingTransportPolicy: .httpSSEOnly), transport: transport,
                credentials: manager, clock: clock)
        }

        func signInAsOther() async throws { _ = try await manager.importCredential(other.credential) }

        func requests(_ path: String) -> [HTTPExchangeRequest] {
            transport.receivedRequests.filter { $0.url.path().hasSuffix(path) }
        }

        func bearers(_ path: String) -> [String?] { requests(path).map { $0.headerFields[.authorization] } }
    }

    @Test(arguments: Newcomer.allCases)
    func aTurnThatWaitsIsNotRepeatedInTheOthersName(_ newcomer: Newcomer) async throws {
        let setting = Setting(
            newcomer, .response(status: .tooManyRequests, body: "{}"), stream(events(answering: "welcome")))
        let turn = Task { try await setting.client.send("a secret question") }
        await setting.clock.waitForSleepers(count: 1)
        try await setting.signInAsOther()
        setting.clock.advance(by: .seconds(60))
        await #expect {
            try await turn.value
        } throws: { error in
            if case ChappieClientError.reauthenticationRequired? = error as? ChappieClientError { true } else { false }
        }
        #expect(setting.bearers("/responses") == ["Bearer \(setting.first.accessToken)"])
        #expect(try await setting.client.send("hello") == "welcome")
        let last = try #require(setting.requests("/responses").last)
        #expect(last.headerFields[.authorization] == "Bearer \(setting.other.accessToken)")
        let said = String(decoding: last.body?.bytes ?? [], as: UTF8.self)
        #expect(!said.contains("secret"))
    }

    @Test(arguments: Newcomer.allCases)
    func theOthersListIsAskedForWithoutTheFirstOnesTag(_ newcomer: Newcomer) async throws {
        let setting = Setting(
            newcomer, .response(headerFields: [.eTag: "\"v1\""], body: #"{"models":[{"slug":"a"}]}"#))
        for _ in 1...2 { _ = try await setting.client.models() }
        try await setting.signInAsOther()
        for _ in 1...2 { _ = try await setting.client.models() }
        #expect(setting.requests("/models").map { $0.headerFields[.ifNoneMatch] } == [nil, "\"v1\"", nil, "\"v1\""])
    }
}
