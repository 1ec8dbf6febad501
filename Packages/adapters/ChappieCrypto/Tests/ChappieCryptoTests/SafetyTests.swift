@_spi(ChappieInternals) import ChappieAuth
import Foundation
import Glibc
import TestFixtures
import Testing

@_spi(ChappieInternals) @testable import ChappieCrypto

/// Files and folders that others could have touched are refused by name, with a remedy, and stay as they are.
struct SafetyTests {
    @Test func folderAndFileAreForTheirOwnerAlone() async throws {
        let folder = try TemporaryDirectory()
        let store = try PrivateStore.store(in: folder.path("a/b/credentials/"))
        try await store.save(Secret("x"), in: .mine)
        for part in ["a", "a/b", "a/b/credentials"] { #expect(try Files.mode(of: folder.path(part)) == 0o700) }
        #expect(try Files.mode(of: store.path(of: .mine)) == 0o600)
    }

    @Test(arguments: ["000", "077", "022", "177"])
    func theProcessesMaskChangesNothing(mask: String) async throws {
        let it = try await PrivateStore()
        try Files.set(0o777, of: it.folder.path)
        #expect(try await onOwnThread { try startWriter(["mask", it.credentials, mask]).wait() } == 0)
        #expect(try Files.mode(of: it.credentials) == 0o700)
        #expect(try Files.mode(of: it.store.path(of: .writer)) == 0o600)
        #expect(try await it.store.load(.writer)?.text.hasPrefix("mask 1 ") == true)
    }

    @Test func everyPermissionForOthersIsRefused() async throws {
        let it = try await PrivateStore(saving: "x")
        for (path, fine) in [(try it.path, 0o600), (it.credentials, 0o700)] {
            for mode in (0o1...0o77).map({ fine | $0 }) {
                try Files.set(mode, of: path)
                await it.expectRefusals("unsafeFile", saying: path, remedy: "chmod -R go-rwx \(it.credentials)")
                #expect(try Files.mode(of: path) == mode)
            }
            try Files.set(fine, of: path)
            #expect(try it.names.count == 1)
            #expect(try await it.store.load(.mine)?.text == "x")
        }
    }

    @Test func aFileOrFolderOfAnotherUserIsRefused() async throws {
        let it = try await PrivateStore(saving: "x")
        var status = stat()
        #expect(stat(try it.path, &status) == 0)
        status.st_uid += 1
        await refusal("unsafeFile", saying: "/some/file belongs to user \(status.st_uid)") {
            try SafeFile.check(status, for: .credential, path: "/some/file")
        }
        // With real owners: root gives its folder away; another user tries a folder of root.
        var foreign = "/usr"
        if geteuid() == 0 {
            #expect(chown(it.credentials, 65534, 65534) == 0)
            foreign = it.credentials
        }
        let store = try PrivateStore.store(in: foreign)
        await it.expectRefusals("unsafeFile", saying: "\(foreign) belongs to user", of: store)
        await refusal("unsafeFile", saying: "\(foreign) belongs to user") { try await store.delete(.mine) }
    }

    /// Neither read nor written through, nor waited for; only a sign-out removes it.
    @Test(arguments: [
        ("a link", "is a symbolic link"), ("a dangling link", "is a symbolic link"), ("a second name", "has 2 names"),
        ("a pipe", "is not a regular file"), ("a folder", "is not a regular file"),
        ("a socket", "is not a regular file"), ("a device", "is not a regular file"),
    ])
    func whatIsNotAFileOfOneNameIsRefused(kind: String, words: String) async throws {
        let it = try await PrivateStore(saving: "x")
        let (path, other) = (try it.path, it.folder.path("other"))
        try FileManager.default.moveItem(atPath: path, toPath: other)
        let before = try Files.read(other)
        switch kind {
        case "a link": #expect(symlink(other, path) == 0)
        case "a dangling link": #expect(symlink(it.folder.path("nowhere"), path) == 0)
        case "a second name": #expect(link(other, path) == 0)
        case "a pipe": #expect(mkfifo(path, 0o600) == 0)
        case "a folder": #expect(mkdir(path, 0o700) == 0)
        case "a socket": #expect(mknod(path, S_IFSOCK | 0o600, 0) == 0)
        // Making one needs root.
        default: if mknod(path, S_IFCHR | 0o600, 1 << 8 | 5) != 0 { return }
        }
        await it.expectRefusals("unsafeFile", saying: "\(path) \(words)")
        #expect(try Files.read(other) == before)
        #expect(!FileManager.default.fileExists(atPath: it.folder.path("nowhere")))
        if kind == "a folder" { return }
        try await it.store.delete(.mine)
        #expect(try Files.read(other) == before)
        #expect(try it.names.isEmpty)
    }

    @Test(arguments: ["credentials", "credentials/", "credentials//"])
    func aSymbolicLinkInTheFoldersPlaceIsRefused(end: String) async throws {
        let it = try await PrivateStore(saving: "x")
        try FileManager.default.moveItem(atPath: it.credentials, toPath: it.folder.path("elsewhere"))
        #expect(symlink(it.folder.path("elsewhere"), it.credentials) == 0)
        let store = try PrivateStore.store(in: it.folder.path(end))
        await it.expectRefusals("unsafeFile", saying: "\(it.credentials) is a symbolic link", of: store)
        await refusal("unsafeFile") { try await store.delete(.mine) }
        #expect(try FileManager.default.contentsOfDirectory(atPath: it.folder.path("elsewhere")).count == 1)
    }

    @Test func aLinkAboveTheFolderIsFollowed() async throws {
        let folder = try TemporaryDirectory()
        #expect(mkdir(folder.path("real"), 0o700) == 0)
        #expect(symlink(folder.path("real"), folder.path("link")) == 0)
        let store = try PrivateStore.store(in: folder.path("link/credentials"))
        try await store.save(Secret("x"), in: .mine)
        #expect(try await store.load(.mine)?.text == "x")
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path("real/credentials")).count == 1)
    }

    @Test func aFileInTheFoldersPlaceIsRefused() async throws {
        let it = try await PrivateStore()
        try Files.write([1], to: it.credentials)
        await it.expectRefusals("unsafeFile", saying: "\(it.credentials) is not a folder")
    }

    @Test func aRemedyIsOneWordToAShell() async {
        var status = stat()
        status.st_mode = S_IFDIR | 0o755
        status.st_uid = geteuid()
        let error = await refusal("unsafeFile") {
            try SafeFile.check(status, for: .credentialFolder, path: "/a b/o'neil; rm -rf")
        }
        #expect(error?.recoverySuggestion?.hasSuffix(#"chmod -R go-rwx '/a b/o'\''neil; rm -rf'"#) == true)
    }
}
