import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import ChappieFiles
import ChappieTesting
import FoundationEssentials
import Glibc
import HTTPTypes
import TestFixtures
import Testing

@testable @_spi(ChappieInternals) import ChappieClient

/// Model lists outlive the program, and nothing about the files can fail a call.
@Suite struct ModelCacheTests {
    private let folder: TemporaryDirectory
    init() throws { folder = try TemporaryDirectory() }

    private var files: [String] { (try? FileManager.default.contentsOfDirectory(atPath: folder.path("chappie"))) ?? [] }
    private var cache: ChappieFileModelCache? {
        ChappieFileModelCache { [path = folder.path] in ["HOME": "/x", "XDG_CACHE_HOME": path][$0] }
    }

    private static let list = ScriptedHTTPAnswer.response(
        headerFields: [.eTag: "W/\"v1\""], body: #"{"models":[{"slug":"a","new":1}]}"#)

    /// What a new program sees, and the tag with which it asked.
    private func run(_ answer: ScriptedHTTPAnswer) async throws -> (slugs: [String], tag: String?) {
        let harness = ClientHarness(others: [answer], modelCache: cache)
        let slugs = try await harness.client.models().map(\.slug)
        return (slugs, harness.http.receivedRequests.last?.headerFields[.ifNoneMatch])
    }

    @Test func `the next program asks with the tag and needs no list`() async throws {
        #expect(try await run(Self.list) == (["a"], nil))
        #expect(try await run(.response(status: .notModified)) == (["a"], "W/\"v1\""))
        let newer = ScriptedHTTPAnswer.response(headerFields: [.eTag: "\"v2\""], body: #"{"models":[{"slug":"b"}]}"#)
        #expect(try await run(newer) == (["b"], "W/\"v1\""))
        #expect(try await run(.response(status: .notModified)) == (["b"], "\"v2\""))
        #expect(files.count == 1)
    }

    @Test func theFileIsForItsOwnerAlone() async throws {
        _ = try await run(Self.list)
        let name = try #require(files.first)
        #expect(name.hasPrefix("models-"))
        #expect(name.hasSuffix(".json"))
        #expect(name.utf8.count == 7 + 16 + 5)
        for (path, mode) in [(folder.path("chappie"), 0o700), (folder.path("chappie/" + name), 0o600)] {
            var facts = stat()
            #expect(stat(path, &facts) == 0 && Int(facts.st_mode & 0o777) == mode)
        }
    }

    @Test(
        "files that are damaged, of another account, or of another format",
        arguments: [
            "", "{", "[]", #"{"owner":[],"format":"0.163.0","etag":"\"v1\"","list":{"models":[]}}"#,
            "0.163.0>9.9.9", "person>other", "v1>v 1", "models>modules",
        ])
    func areAskedForWithoutATag(_ damage: String) async throws {
        _ = try await run(Self.list)
        let name = "chappie/" + (try #require(files.first))
        var text = try folder.read(name)
        let change = damage.split(separator: ">")
        if change.count == 2 {
            // Whose the list is stands in the file.
            let owner = try #require(try ChappieJSON(parsing: text)["owner"]?[2]?.string)
            text = text.replacing(change[0] == "person" ? owner : String(change[0]), with: change[1])
        } else {
            text = damage
        }
        try folder.write(text, to: name)
        #expect(try await run(Self.list) == (["a"], nil))
        #expect(try await run(.response(status: .notModified)) == (["a"], "W/\"v1\""))
    }

    /// A list that the next version of this program finds: used, and renewed beside the turn.
    @Test func aListOfAnotherFormatIsOld() throws {
        let owner = ["issuer", "backend", "user", "account"]
        let account = ChappieAccountInfo(userID: "user", accountID: "account")
        let list: ChappieJSON = ["models": [["slug": "a"]]]
        let earlier = ModelListRecord(owner: owner, format: "0.1.0")
        let document = try #require(earlier.document(tag: "\"v1\"", list: list, at: .scriptedStart))
        let same = try #require(earlier.read(document, of: account))
        #expect(!same.isDue(at: .scriptedStart) && same.tag == "\"v1\"")
        #expect(same.isDue(at: .scriptedStart.addingTimeInterval(ModelList.lifetime + 1)))
        #expect(same.isDue(at: .scriptedStart.addingTimeInterval(-1)))
        let later = try #require(ModelListRecord(owner: owner, format: "0.2.0").read(document, of: account))
        #expect(later.models.map(\.slug) == ["a"])
        #expect(later.tag == nil)
        #expect(later.isDue(at: .scriptedStart))
    }

    @Test func aFolderThatCannotBeMadeFailsNoCall() async throws {
        try folder.write("", to: "chappie")
        #expect(try await run(Self.list) == (["a"], nil))
        #expect(try await run(Self.list) == (["a"], nil))
    }

    @Test func `a list without a tag is stored, and one that contains a token is not`() async throws {
        #expect(try await run(.response(body: #"{"models":[{"slug":"a"}]}"#)) == (["a"], nil))
        #expect(files.count == 1)
        for name in files { try FileManager.default.removeItem(atPath: folder.path("chappie/" + name)) }
        let echo = #"{"models":[{"slug":"a","said":"Bearer abcdefghijklmnopqrstuvwxyz"}]}"#
        #expect(try await run(.response(headerFields: [.eTag: "\"v1\""], body: echo)) == (["a"], nil))
        #expect(files.isEmpty)
    }

    @Test(arguments: [
        ["HOME": "/home/me"], ["HOME": "/home/me", "XDG_CACHE_HOME": "relative"], ["XDG_CACHE_HOME": "/cache"],
    ])
    func aPlaceIsFound(_ environment: [String: String]) {
        #expect(ChappieFileModelCache { environment[$0] } != nil)
    }

    /// A home that is set and can't be used is not replaced by the user database's.
    @Test func withoutAUsableHomeThereIsNoCache() {
        #expect(ChappieFileModelCache { ["HOME": "relative"][$0] } == nil)
    }
}
