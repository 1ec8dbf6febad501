@_spi(ChappieInternals) import ChappieCore
import FoundationEssentials
import Glibc
import TestFixtures
import Testing

@Suite struct ChappieAttachmentTests {
    private static let png: [UInt8] = [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A, 0, 1, 2]
    private static let webp = Array("RIFF".utf8) + [1, 2, 3, 4] + Array("WEBPVP8 ".utf8)

    private func failure(_ work: () throws -> Void) -> ChappieAttachmentError? {
        do { try work() } catch { return error as? ChappieAttachmentError }
        return nil
    }

    // MARK: Kinds

    @Test(
        "images by their first bytes",
        arguments: [
            (png, "png"), ([0xFF, 0xD8, 0xFF, 0xE0], "jpeg"), (Array("GIF87a..".utf8), "gif"),
            (Array("GIF89a..".utf8), "gif"), (webp, "webp"),
        ])
    func recognisesImages(_ bytes: [UInt8], _ kind: String) throws {
        let url = "data:image/\(kind);base64,\(Data(bytes).base64EncodedString())"
        #expect(try ChappieImage(bytes: bytes).source == .url(url))
        #expect(try ChappieImage(data: Data(bytes), detail: .auto).detail == .auto)
        #expect(try ChappieImage(url: #require(URL(string: url))) == ChappieImage(source: .url(url)))
    }

    @Test(
        "what is no image of these kinds",
        arguments: [
            Array(png.dropLast(4)), Array("RIFF....WAVE".utf8), Array("RIFF".utf8), Array("GIF88a".utf8),
            Array("<svg/>".utf8), Array("BM".utf8), [0xFF, 0xD8], Array("%PDF-1.7".utf8),
            [0, 0, 0, 0x20] + Array("ftypheic".utf8),
        ])
    func refusesOtherBytes(_ bytes: [UInt8]) {
        #expect(failure { _ = try ChappieImage(bytes: bytes, name: "a.png") } == .unsupportedImage("a.png"))
    }

    @Test(
        "files by their first bytes, their name, and whether they are text",
        arguments: [
            ("%PDF-1.7", "a", "application/pdf"), ("{}", "a.JSON", "application/json"), ("a,b", "a.csv", "text/csv"),
            ("text", "a.unknown", "text/plain"), ("text", "", "text/plain"), ("GIF89a", "a.pdf", "image/gif"),
        ])
    func recognisesFiles(_ content: String, _ name: String, _ type: String) throws {
        let url = "data:\(type);base64,\(Data(content.utf8).base64EncodedString())"
        #expect(try ChappieFile(bytes: Array(content.utf8), name: name).source == .data(url))
        let given = try ChappieFile(data: Data(content.utf8), name: name, mediaType: "x/y")
        #expect(given.source == .data(url.replacing(type, with: "x/y")) && given.name == name)
        let binary = try ChappieFile(bytes: [0xFF, 0], name: "a")
        #expect(binary.source == .data("data:application/octet-stream;base64,/wA="))
    }

    // MARK: Bounds

    @Test func takesAsMuchAsItsLimitAndNotAByteMore() throws {
        #expect(ChappieImage.defaultLimit == 20 << 20 && ChappieFile.defaultLimit == 20 << 20)
        let size = Self.png.count
        _ = try ChappieImage(bytes: Self.png, limit: size)
        #expect(
            failure { _ = try ChappieImage(bytes: Self.png, limit: size - 1) }
                == .tooLarge("the image", limit: size - 1))
        #expect(failure { _ = try ChappieFile(bytes: Self.png, name: "a", limit: 1) } == .tooLarge("a", limit: 1))
        #expect(failure { _ = try ChappieImage(bytes: []) } == .empty("the image"))
        #expect(failure { _ = try ChappieFile(bytes: [], name: "a") } == .empty("a"))
        let long = try #require(URL(string: "data:image/png;base64," + String(repeating: "A", count: 4000)))
        #expect(failure { _ = try ChappieImage(url: long, limit: 100) } == .tooLarge("the image", limit: 100))
    }

    // MARK: Files

    @Test func readsFilesAndSaysWhyItCannot() throws {
        let folder = try TemporaryDirectory()
        let path = folder.path("a b.png")
        try Data(Self.png).write(to: URL(filePath: path))
        #expect(try ChappieImage(path: path) == ChappieImage(bytes: Self.png))
        #expect(try ChappieImage(url: URL(filePath: path), detail: .low) == ChappieImage(bytes: Self.png, detail: .low))
        #expect(try ChappieFile(path: path).name == "a b.png")
        try #require(mkfifo(folder.path("pipe"), 0o600) == 0)
        let size = Self.png.count
        let cases: [(String, Int, ChappieAttachmentError)] = [
            ("/none", size, .notFound(folder.path("none"))), ("/a b.png/x", size, .notFound(path + "/x")),
            ("", size, .isDirectory(folder.path)), ("/pipe", size, .notAFile(folder.path("pipe"))),
            ("/a b.png", size - 1, .tooLarge(path, limit: size - 1)), ("\0", size, .notFound(folder.path + "\0")),
        ]
        for (name, limit, error) in cases {
            #expect(failure { _ = try ChappieImage(path: folder.path + name, limit: limit) } == error)
            #expect(failure { _ = try ChappieFile(path: folder.path + name, limit: limit) } == error)
        }
        // A file that says it has no bytes, and has some.
        #expect(failure { _ = try ChappieImage(path: "/proc/self/status") } == .unsupportedImage("/proc/self/status"))
    }

    @Test(arguments: ["https://x.example/a.png", "http://x.example/?q=a%20b"])
    func addressesOfTheWebAreTheBackendsToFetch(_ address: String) throws {
        #expect(try ChappieImage(url: #require(URL(string: address))).source == .url(address))
    }

    @Test(arguments: ["ftp://x.example/a.png", "a.png", "data:image/png,abc", "data:image/png;base64,A", "data:"])
    func otherAddressesAreRefused(_ address: String) throws {
        let url = try #require(URL(string: address))
        guard case .unsupportedURL = failure({ _ = try ChappieImage(url: url) }) else {
            Issue.record("\(address) was not refused as an address")
            return
        }
    }

    @Test func everyErrorIsASentenceWithAWayOut() {
        let errors: [ChappieAttachmentError] = [
            .notFound("a"), .isDirectory("a"), .notAFile("a"), .unreadable("a", reason: "Permission denied"),
            .tooLarge("a", limit: 20 << 20), .tooLarge("a", limit: 7), .empty("a"), .unsupportedImage("a"),
            .unsupportedURL("a"),
        ]
        for error in errors {
            #expect(error.errorDescription?.hasSuffix(".") == true && error.recoverySuggestion?.hasSuffix(".") == true)
        }
        #expect(errors[4].errorDescription == "a is over 20 MiB." && errors[5].errorDescription == "a is over 7 bytes.")
    }
}
