import ChappieSDK
import ChappieSDKTesting
import Testing

@Test func theTestingProductLinksBesideTheSDK() {
    #expect(ChappieClient.defaultModel == "gpt-5.5")
    #expect(SeededAuth().email == "person@example.com")
}
