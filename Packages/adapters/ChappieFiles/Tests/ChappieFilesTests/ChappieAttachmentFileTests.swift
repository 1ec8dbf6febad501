import ChappieCore
import ChappieFiles
import FoundationEssentials
import Glibc
import TestFixtures
import Testing

@Suite struct ChappieAttachmentFileTests {
    private static let png = Array(
        Data(
            base64Encoded:
                "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
            ?? Data())

    private func failure(_ work: () throws -> Void) -> ChappieAttachmentError? {
        do {
            try work()
        } catch {
            return error as? ChappieAttachmentError
        }
        return nil
    }

    @Test func anImageInItsAddressIsCheckedLikeBytes() throws {
        let url = "data:image/png;base64,\(Data(Self.png).base64EncodedString())"
        #expect(try ChappieImage(url: #require(URL(string: url))) == ChappieImage(source: .url(url)))
        let long = try #require(URL(string: "data:image/png;base64," + String(repeating: "A", count: 4000)))
        #expect(
            failure { _ = try ChappieImage(url: long, limit: 100) }
                == .imageTooLarge("the image", bytes: 3000, limit: 100))
    }

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
            ("\0", size, .notFound(folder.path + "\0")),
        ]
        #expect(failure { _ = try ChappieFile(path: path, limit: size - 1) } == .tooLarge(path, limit: size - 1))
        #expect(
            failure { _ = try ChappieImage(path: path, limit: size - 1) }
                == .imageTooLarge(path, bytes: size, limit: size - 1))
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
}
