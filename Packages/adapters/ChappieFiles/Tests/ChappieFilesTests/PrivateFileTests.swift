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

    @Test func `a stale draft is removed, and a fresh one and the user's own copy stay`() throws {
        try PrivateFile.replace(path, with: [0])
        for name in ["stale.draft", "bak", "fresh.draft"] { try PrivateFile.create("\(path).\(name)", with: [1]) }
        var old = [timespec(tv_sec: time(nil) - 3600, tv_nsec: 0), timespec(tv_sec: time(nil) - 3600, tv_nsec: 0)]
        for name in ["stale.draft", "bak"] { #expect(utimensat(AT_FDCWD, "\(path).\(name)", &old, 0) == 0) }
        try PrivateFile.replace(path, with: [2])
        #expect(try WholeFile.contents(of: path, limit: 99) == [2])
        #expect(try Set(names()) == ["settings.json", "settings.json.bak", "settings.json.fresh.draft"])
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
}
