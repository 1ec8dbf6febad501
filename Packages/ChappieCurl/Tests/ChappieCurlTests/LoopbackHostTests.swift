import ChappieCurl
import Testing

@Suite struct LoopbackHostTests {
    @Test(arguments: ["localhost", "LOCALHOST", "127.0.0.1", "127.255.255.255", "::1", "[::1]"])
    func containsThisMachine(host: String) { #expect(LoopbackHost.contains(host)) }

    @Test(arguments: [
        "", "localhost.example", "127.1", "127.0.0.256", "127.0.0.01", "127.0.0.1.", "127.0.0.1.example", "0x7f.0.0.1",
        "2130706433", "128.0.0.1", "0.0.0.0", "::", "::2", "[::ffff:127.0.0.1]", "127.0.0.", "127..0.1", "127.0.0.+1",
    ])
    func doesNotContain(host: String) { #expect(!LoopbackHost.contains(host)) }
}
