@_spi(ChappieInternals) import ChappieFiles
import Glibc
import Testing

@_spi(ChappieInternals) @testable import chappie

@Suite struct WholeFileTests {
    private let folder = TemporaryFolder()
    private var path: String { folder.path + "/settings.json" }

    @Test func onlyAPlainFileOfOnesOwnIsPrivate() throws {
        try PrivateFile.replace(path, with: [7])
        #expect(try WholeFile.read(path, .ownAndPrivate) == [7])
        #expect(
            symlink(path, path + "-link") == 0 && mkfifo(path + "-pipe", 0o600) == 0
                && mkdir(path + "-folder", 0o700) == 0)
        for kind in ["-link", "-pipe", "-folder"] {
            let error = try #require(throws: CommandLineError.self) { try WholeFile.read(path + kind, .ownAndPrivate) }
            #expect(error.message.contains("regular file"))
        }
        #expect(chmod(path, 0o640) == 0)
        let error = try #require(throws: CommandLineError.self) { try WholeFile.read(path, .ownAndPrivate) }
        #expect(error.suggestion?.contains("chmod 600") == true)
        let missing = try #require(throws: CommandLineError.self) { try WholeFile.read(path + "-missing") }
        #expect(missing.message.contains("No such file"))
    }
}
