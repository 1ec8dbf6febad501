import TestFixtures
import Testing

@testable import ChappieWebSocket

@Suite(.byItself) struct SHA1Tests {
    @Test(
        "published vectors (FIPS 180)",
        arguments: [
            ("", "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
            ("abc", "a9993e364706816aba3e25717850c26c9cd0d89d"),
            (
                "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                "84983e441c3bd26ebaae4aa1f95129e5e54670f1"
            ),
        ])
    func digests(_ message: String, _ digest: String) {
        #expect(SHA1.digest(Array(message.utf8)) == WireBytes.hex(digest))
    }

    @Test(
        "messages around the size of a block",
        arguments: [
            (55, "c1c8bbdc22796e28c0e15163d20899b65621d65a"), (56, "c2db330f6083854c99d4b5bfb6e8f29f201be699"),
            (64, "0098ba824b5c16427bd7a1122a5a442a25ec644d"), (1000, "291e9a6c66994949b57ba5e650361e98fc36b1ba"),
        ])
    func digestsAroundBlocks(_ count: Int, _ digest: String) {
        #expect(SHA1.digest(.init(repeating: 0x61, count: count)) == WireBytes.hex(digest))
    }
}
