@_spi(ChappieInternals) import ChappieCore
import FoundationEssentials
import Glibc
import Testing

@testable import chappie

@Suite struct FilesTests {
    private let folder = TemporaryFolder()
    private var path: String { folder.path + "/deep/er/settings.json" }

    private func names() throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: folder.path + "/deep/er")
    }

    /// The fresh one has the name that an earlier version gave: its process's ID, which repeats in containers.
    @Test func aStaleDraftGoesAndAFreshOneStaysAndBlocksNothing() throws {
        #expect(PrivateFile.replace(path, with: [0]))
        for name in ["stale", "\(getpid())"] { #expect(PrivateFile.create("\(path).\(name)", with: [1])) }
        var old = [timespec(tv_sec: time(nil) - 3600, tv_nsec: 0), timespec(tv_sec: time(nil) - 3600, tv_nsec: 0)]
        #expect(utimensat(AT_FDCWD, "\(path).stale", &old, 0) == 0)
        #expect(PrivateFile.replace(path, with: [2]))
        #expect(try SmallFile.read(path) == [2])
        #expect(try Set(names()) == ["settings.json", "settings.json.\(getpid())"])
    }

    @Test func aFileIsForItsOwnerAloneAndNeverReplacedByCreating() throws {
        #expect(PrivateFile.replace(path, with: [1]))
        for (place, mode) in [(path, 0o600), (folder.path + "/deep/er", 0o700), (folder.path + "/deep", 0o700)] {
            var facts = stat()
            #expect(stat(place, &facts) == 0 && facts.st_mode & 0o777 == mode)
        }
        #expect(!PrivateFile.create(path, with: [2]) && errno == EEXIST)
        #expect(try SmallFile.read(path) == [1])
    }

    @Test func aReplacementThatFailsLeavesNoDraft() throws {
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        #expect(!PrivateFile.replace(path, with: [1]) && errno == EISDIR)
        #expect(try names() == ["settings.json"])
    }

    @Test func onlyAPlainFileOfOnesOwnIsPrivate() throws {
        #expect(PrivateFile.replace(path, with: [7]))
        #expect(try SmallFile.read(path, isPrivate: true) == [7])
        #expect(
            symlink(path, path + "-link") == 0 && mkfifo(path + "-pipe", 0o600) == 0
                && mkdir(path + "-folder", 0o700) == 0)
        for kind in ["-link", "-pipe", "-folder"] {
            let error = try #require(throws: CommandLineError.self) { try SmallFile.read(path + kind, isPrivate: true) }
            #expect(error.message.contains("plain file"))
        }
        #expect(chmod(path, 0o640) == 0)
        let error = try #require(throws: CommandLineError.self) { try SmallFile.read(path, isPrivate: true) }
        #expect(error.suggestion?.contains("chmod 600") == true)
        let missing = try #require(throws: CommandLineError.self) { try SmallFile.read(path + "-missing") }
        #expect(missing.message.contains("No such file"))
    }
}
