import ChappieAuth
import FoundationEssentials
import Glibc
import SystemPackage
import TestFixtures
import Testing

@_spi(ChappieInternals) @testable import ChappieFiles

/// Root keeps nothing among the files of another user.
struct PathOwnerTests {
    @Test func `this user's own folders are never refused`() throws {
        let folder = try TemporaryDirectory()
        for path in ["missing/deep/file", "missing", ""].map(folder.path) {
            #expect(PathOwner.refusal(of: path) == nil && PathOwner.remedy(for: path) == nil)
        }
        #expect(PathOwner.refusal(of: "relative/file") == nil)
    }

    @Test(.enabled(if: geteuid() == 0, "only root can give a folder away"))
    func `root makes nothing below the nearest folder of another user`() async throws {
        let folder = try TemporaryDirectory()
        let home = folder.path("home")
        #expect(mkdir(home, 0o700) == 0 && chown(home, 4242, 4242) == 0)
        let path = home + "/.config/chappie/settings.json"
        let refusal = try #require(PathOwner.refusal(of: path))
        #expect(refusal.reason == "\(home) belongs to user 4242, and this program runs as root")
        #expect(refusal.remedy.contains("sudo -H"))
        #expect(throws: Errno.notPermitted) { try PrivateFile.replace(path, with: [1]) }
        let lock = FileCredentialLock(directory: home + "/.local/state/chappie/locks")
        let slot = CredentialSlot(service: "com.chappie.tests")
        await #expect(throws: CredentialStoreError.unsafeFile(refusal.reason, remedy: refusal.remedy)) {
            _ = try await lock.acquire(slot, within: .seconds(1))
        }
        #expect(try FileManager.default.contentsOfDirectory(atPath: home).isEmpty)
    }

    @Test func `a lock without a home directory says to set HOME`() async throws {
        let error = await #expect(throws: CredentialStoreError.self) {
            _ = try await FileCredentialLock(directory: nil).acquire(CredentialSlot(), within: .seconds(1))
        }
        #expect(error?.recoverySuggestion == "Set HOME.")
    }
}
