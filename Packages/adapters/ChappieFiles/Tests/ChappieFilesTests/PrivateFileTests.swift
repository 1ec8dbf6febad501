@_spi(ChappieInternals) import ChappieFiles
import FoundationEssentials
import Glibc
import SystemPackage
import TestFixtures
import Testing

@Suite struct PrivateFileTests {
    private let folder: TemporaryDirectory
    init() throws { folder = try TemporaryDirectory() }

    private var path: String { folder.path + "/deep/er/settings.json" }

    private func names() throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: folder.path + "/deep/er")
    }

    @Test func `an abandoned draft is removed, and a draft that is being written and other files stay`() throws {
        try PrivateFile.replace(path, with: [0])
        let kept = [
            "settings.json.bak", "settings.json.my.draft", "settings.json.00000000000000AB.draft",
            "other.json.0123456789abcdef.draft",
        ]
        let folder = self.folder.path + "/deep/er/"
        for name in kept + ["settings.json.0123456789abcdef.draft"] {
            try PrivateFile.create(folder + name, with: [1])
        }
        let live = try FileDraft(of: path)
        let drafted = try names().count
        try PrivateFile.replace(path, with: [2])
        #expect(try WholeFile.contents(of: path, limit: 99) == [2])
        #expect(try names().count == drafted - 1 && Set(names()).isSuperset(of: kept))
        try live.replace(with: [3], isDurable: false)
        #expect(try Set(names()) == Set(kept + ["settings.json"]))
    }

    @Test func `the drafts of many files in a folder are removed together`() throws {
        for name in ["a.json", "b.json", "c.txt"] {
            try PrivateFile.create("\(folder.path)/\(name).0123456789abcdef.draft", with: [1])
        }
        FileDraft.removeAbandoned(in: folder.path) { $0.hasSuffix(".json") }
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path) == ["c.txt.0123456789abcdef.draft"])
    }

    @Test func `only its owner can open a file, and creating never replaces it`() throws {
        try PrivateFile.replace(path, with: [1])
        for (place, mode) in [(path, 0o600), (folder.path + "/deep/er", 0o700), (folder.path + "/deep", 0o700)] {
            var facts = stat()
            #expect(stat(place, &facts) == 0 && facts.st_mode & 0o777 == mode)
        }
        #expect(throws: Errno.fileExists) { try PrivateFile.create(path, with: [2]) }
        #expect(try WholeFile.contents(of: path, limit: 99) == [1])
    }

    @Test func aReplacementThatFailsLeavesNoDraft() throws {
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        #expect(throws: Errno.isDirectory) { try PrivateFile.replace(path, with: [1]) }
        #expect(try names() == ["settings.json"])
    }

    @Test func `a draft for a new file leaves a file and a link of that name unchanged`() throws {
        let taken = folder.path + "/taken"
        let link = folder.path + "/link"
        try PrivateFile.create(taken, with: [1])
        #expect(symlink("elsewhere", link) == 0)
        for path in [taken, link] {
            #expect(throws: Errno.fileExists) {
                try FileDraft(of: path).replace(with: [2], isDurable: false, onlyIfMissing: true)
            }
        }
        try FileDraft(of: folder.path + "/new").replace(with: [3], isDurable: false, onlyIfMissing: true)
        #expect(try WholeFile.contents(of: taken, limit: 99) == [1])
        #expect(try WholeFile.contents(of: folder.path + "/new", limit: 99) == [3])
        let names = try FileManager.default.contentsOfDirectory(atPath: folder.path)
        #expect(names.sorted() == ["link", "new", "taken"])
    }
}
