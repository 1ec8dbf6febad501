import Testing

@testable import ChappieSDK

/// An app with several accounts shares the network, and separates credentials.
@Suite struct CompositionTests {
    @Test func everyAccountHasAManagerOfItsOwnAndAllShareTheNetwork() {
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
            let networks = [first, other].map { composition.transports(for: $0.network).http }
            #expect(networks[0] === networks[1])
        }
    }
}
