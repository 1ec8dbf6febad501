@_spi(ChappieInternals) import ChappieCore
import FoundationEssentials
import Testing

@Suite struct ChappieAttachmentTests {
    private static let png = TinyImage.png(1, 1)

    private func failure(_ work: () throws -> Void) -> ChappieAttachmentError? {
        do {
            try work()
        } catch {
            return error as? ChappieAttachmentError
        }
        return nil
    }

    // MARK: Kinds

    @Test(
        "images by their first bytes",
        arguments: [
            (png, "png"), (TinyImage.jpeg(1, 1), "jpeg"), (Array("GIF87a..".utf8), "gif"),
            (Array("GIF89a..".utf8), "gif"), (TinyImage.webp("VP8 ", 1, 1), "webp"),
        ])
    func recognisesImages(_ bytes: [UInt8], _ kind: String) throws {
        let url = "data:image/\(kind);base64,\(Data(bytes).base64EncodedString())"
        #expect(try ChappieImage(bytes: bytes).source == .url(url))
        #expect(try ChappieImage(data: Data(bytes), detail: .auto).detail == .auto)
    }

    @Test(
        "what is no image of these kinds",
        arguments: [
            Array(png.prefix(7)), Array("RIFF....WAVE".utf8), Array("RIFF".utf8), Array("GIF88a".utf8),
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
        #expect(ChappieImage.defaultLimit == 8_000_000 && ChappieFile.defaultLimit == 20 << 20)
        let size = Self.png.count
        _ = try ChappieImage(bytes: Self.png, limit: size)
        #expect(
            failure { _ = try ChappieImage(bytes: Self.png, limit: size - 1) }
                == .imageTooLarge("the image", bytes: size, limit: size - 1))
        #expect(failure { _ = try ChappieFile(bytes: Self.png, name: "a", limit: 1) } == .tooLarge("a", limit: 1))
        #expect(failure { _ = try ChappieImage(bytes: []) } == .empty("the image"))
        #expect(failure { _ = try ChappieFile(bytes: [], name: "a") } == .empty("a"))
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
