import Testing

@testable import ChappieSDK

/// Who shares what, when an app has several accounts.
@Suite struct CompositionTests {
    @Test func everyAccountHasAManagerOfItsOwnAndAllShareTheNetwork() {
        let (first, second) = (
            ChappieConfiguration(keychainAccount: "first"), ChappieConfiguration(keychainAccount: "second")
        )
        let composition = PlatformComposition()
        #expect(composition.credentials(for: first) === composition.credentials(for: first))
        #expect(composition.credentials(for: first) !== composition.credentials(for: second))
        #expect(composition.credentials(for: second).slot.account == "second")
        let networks = [first, second].map { composition.transports(for: $0.network).http }
        #expect(networks[0] === networks[1])
    }

    @Test func anotherServiceOrGroupIsAnotherSlot() {
        let composition = PlatformComposition()
        let usual = ChappieConfiguration(keychainAccount: "one")
        for other in [
            ChappieConfiguration(keychainService: "com.example.other", keychainAccount: "one"),
            ChappieConfiguration(keychainAccount: "one", keychainAccessGroup: "group"),
        ] {
            #expect(composition.credentials(for: usual) !== composition.credentials(for: other))
        }
    }
}
