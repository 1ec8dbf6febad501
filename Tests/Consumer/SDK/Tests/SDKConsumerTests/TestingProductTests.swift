import ChappieSDK
import ChappieTesting
import Testing

@Test func theTestingProductLinksBesideTheSDK() {
    #expect(ChappieClient.defaultModel == "gpt-5.5")
}
