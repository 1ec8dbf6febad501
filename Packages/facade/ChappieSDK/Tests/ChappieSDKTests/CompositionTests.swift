import ChappieAuth
@_spi(ChappieInternals) import ChappieClient
import ChappieCore
import ChappieTesting
import FoundationEssentials
import TestFixtures
import Testing

@_spi(ChappieInternals) @testable import ChappieSDK

/// An app with several accounts shares the network, and separates credentials.
@Suite struct CompositionTests {
    @Test func `every account has its own manager, and all share the network`() {
        let composition = PlatformComposition()
        let first = ChappieConfiguration(keychainAccount: "first")
        #expect(composition.credentials(for: first) === composition.credentials(for: first))
        for other in [
            ChappieConfiguration(keychainAccount: "second"),
            ChappieConfiguration(keychainService: "com.example.other", keychainAccount: "first"),
            ChappieConfiguration(keychainAccount: "first", keychainAccessGroup: "group"),
        ] {
            #expect(composition.credentials(for: first) !== composition.credentials(for: other))
            #expect(composition.credentials(for: other).slot.account == other.keychainAccount)
            let networks = [first, other].map { composition.transports(for: $0.network) }
            #expect(networks[0] === networks[1])
        }
    }

    @Test func `an observer follows the clients and credentials that are created after it`() async throws {
        let observer = RecordingObserver()
        #expect(Chappie.client(store: .memory).observer == nil)
        Chappie.observe(with: observer)
        let configuration = ChappieConfiguration(keychainAccount: "observed")
        let client = Chappie.client(configuration: configuration, store: .memory)
        let credentials = PlatformComposition.shared.credentials(for: configuration, in: .memory)
        Chappie.observe(with: nil)
        #expect(client.observer as? RecordingObserver === observer)
        try await credentials.signOut()
        #expect(observer.facts.contains(.signOutEnded(.succeeded)))
    }

    /// A sign-out has to reach all of them.
    @Test func `one slot has one manager, whatever else a configuration specifies`() {
        let composition = PlatformComposition()
        let manager = composition.credentials(for: ChappieConfiguration(keychainAccount: "one"))
        let issuer = ChappieEndpoints.chatGPT.issuer
        let backend = ChappieEndpoints.chatGPT.backend
        let named = ChappieRegistration(originator: "other", userAgent: "other/1")
        for same in [
            ChappieConfiguration(
                keychainAccount: "one", network: ChappieNetworkPolicy(deadlines: ChappieDeadlines(idle: .seconds(600)))),
            ChappieConfiguration(keychainAccount: "one", keychainAccessibility: .afterFirstUnlockThisDeviceOnly),
            ChappieConfiguration(keychainAccount: "one", appGroup: "group.com.example"),
            ChappieConfiguration(
                keychainAccount: "one",
                endpoints: ChappieEndpoints(issuer: issuer, backend: backend, registration: named)),
        ] {
            #expect(composition.credentials(for: same) === manager)
        }
        let client = ChappieRegistration(clientID: "app_of_its_own")
        for other in [
            ChappieEndpoints.simulator(), ChappieEndpoints(issuer: issuer, backend: backend, registration: client),
        ] {
            let configuration = ChappieConfiguration(keychainAccount: "one", endpoints: other)
            #expect(composition.credentials(for: configuration) !== manager)
        }
    }

    /// A start must not cost more than it did without that grant.
    @Test func `a browser sign-in has its ports, and no other grant asks for them`() throws {
        let folder = try TemporaryDirectory()
        let path = folder.path
        var asked = 0
        let variable = { (name: String) -> String? in
            asked += 1
            return name == "XDG_STATE_HOME" ? path : nil
        }
        #expect(BrowserSignInPorts.ofPlatform(for: ChappieConfiguration(), variable) != nil)
        var accessToken = ChappieConfiguration()
        accessToken.endpoints.grant = .accessToken
        #expect(BrowserSignInPorts.ofPlatform(for: accessToken, variable) == nil)
        #expect(asked == 0)
        let plan = ChappieConfiguration(endpoints: .continueWithChatGPT(appName: "Notes"))
        #expect(BrowserSignInPorts.ofPlatform(for: plan, variable) != nil)
        #expect(try FileManager.default.contentsOfDirectory(atPath: path).isEmpty)
        let composition = PlatformComposition()
        #expect(composition.credentials(for: plan) !== composition.credentials(for: ChappieConfiguration()))
    }

    private struct Values: CredentialStore {
        func load(_ slot: CredentialSlot) -> Secret? { nil }
        func save(_ secret: Secret, in slot: CredentialSlot) {}
        func delete(_ slot: CredentialSlot) {}
    }

    @Test func `a storage whose store cannot be compared counts as one place`() {
        let composition = PlatformComposition()
        let storage = ChappieCredentialStorage.custom(Values())
        let managers = [storage, storage, .custom(Values())].map {
            composition.credentials(for: ChappieConfiguration(), in: $0)
        }
        #expect(managers[0] === managers[1] && managers[1] !== managers[2])
    }
}
