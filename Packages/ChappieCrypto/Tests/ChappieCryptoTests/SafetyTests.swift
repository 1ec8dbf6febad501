@_spi(ChappieInternals) import ChappieAuth
import Foundation
import Glibc
import TestFixtures
import Testing

@testable import ChappieCrypto

/// Files and folders that others could have touched are refused by name, with a remedy, and stay as they are.
struct SafetyTests {
    @Test func folderAndFileAreForTheirOwnerAlone() async throws {
        let folder = try PrivateFolder()
        let store = try EncryptedFileCredentialStore(
            directory: folder.path + "/a/b/credentials/", passphrase: FixedPassphrase(Secret("p")), parameters: .cheap)
        try await store.save(Secret("x"), in: .mine)
        for part in ["/a", "/a/b", "/a/b/credentials"] { #expect(try Files.mode(of: folder.path + part) == 0o700) }
        #expect(try Files.mode(of: store.path(of: .mine)) == 0o600)
    }

    @Test(arguments: ["000", "077", "022", "177"])
    func theProcessesMaskChangesNothing(mask: String) async throws {
        let folder = try PrivateFolder()
        try Files.set(0o777, of: folder.path)
        let status = try await onOwnThread { [credentials = folder.credentials] in
            try FileStoreWriter.start(["mask", credentials, mask]).wait()
        }
        #expect(status == 0)
        let store = try EncryptedFileCredentialStore.cheap(folder)
        #expect(try Files.mode(of: folder.credentials) == 0o700)
        #expect(try Files.mode(of: store.path(of: .writer)) == 0o600)
        #expect(try await store.load(.writer)?.text.hasPrefix("mask 1 ") == true)
    }

    @Test func everyPermissionForOthersIsRefused() async throws {
        let folder = try PrivateFolder()
        let store = try EncryptedFileCredentialStore.cheap(folder)
        try await store.save(Secret("x"), in: .mine)
        for (path, fine) in [(try store.path(of: .mine), 0o600), (folder.credentials, 0o700)] {
            let before = try folder.names()
            for mode in (0o1...0o77).map({ fine | $0 }) {
                try Files.set(mode, of: path)
                for error in [
                    await storeError("load, \(String(mode, radix: 8))") { _ = try await store.load(.mine) },
                    await storeError("save, \(String(mode, radix: 8))") {
                        try await store.save(Secret("y"), in: .mine)
                    },
                ] {
                    #expect(error?.isUnsafe == true)
                    #expect(error?.errorDescription?.contains(path) == true)
                    #expect(error?.recoverySuggestion?.contains("chmod \(String(fine, radix: 8)) ") == true)
                }
                #expect(try Files.mode(of: path) == mode)
            }
            try Files.set(fine, of: path)
            #expect(try folder.names() == before)
            #expect(try await store.load(.mine)?.text == "x")
        }
    }

    @Test func aFileOrFolderOfAnotherUserIsRefused() async throws {
        let folder = try PrivateFolder()
        let store = try EncryptedFileCredentialStore.cheap(folder)
        try await store.save(Secret("x"), in: .mine)
        var status = stat()
        #expect(stat(try store.path(of: .mine), &status) == 0)
        status.st_uid += 1
        let error = #expect(throws: CredentialStoreError.self) {
            try FileSafety.check(status, for: .credential, path: "/some/file")
        }
        #expect(error?.errorDescription?.contains("/some/file belongs to user \(status.st_uid)") == true)
        // For real: root gives its folder away, anybody else looks into one of root's.
        var foreign = "/usr"
        if geteuid() == 0 {
            #expect(chown(folder.credentials, 65534, 65534) == 0)
            foreign = folder.credentials
        }
        let elsewhere = try EncryptedFileCredentialStore(
            directory: foreign, passphrase: FixedPassphrase(Secret("correct horse")), parameters: .cheap)
        for error in [
            await storeError { _ = try await elsewhere.load(.mine) },
            await storeError { try await elsewhere.save(Secret("y"), in: .mine) },
            await storeError { try await elsewhere.delete(.mine) },
        ] {
            #expect(error?.isUnsafe == true)
            #expect(error?.errorDescription?.contains("\(foreign) belongs to user") == true)
        }
    }

    @Test func aSymbolicLinkInTheFilesPlaceIsNeitherReadNorWrittenThrough() async throws {
        let folder = try PrivateFolder()
        let store = try EncryptedFileCredentialStore.cheap(folder)
        try await store.save(Secret("x"), in: .mine)
        let path = try store.path(of: .mine)
        let target = folder.path + "/target"
        try FileManager.default.moveItem(atPath: path, toPath: target)
        let before = try Files.read(target)
        #expect(symlink(target, path) == 0)
        for error in [
            await storeError { _ = try await store.load(.mine) },
            await storeError { try await store.save(Secret("y"), in: .mine) },
        ] {
            #expect(error?.isUnsafe == true)
            #expect(error?.errorDescription?.contains("\(path) is a symbolic link") == true)
        }
        try await store.delete(.mine)
        #expect(try Files.read(target) == before)
        #expect(try folder.names().isEmpty)
    }

    @Test func aDanglingLinkIsNotAnEmptySlot() async throws {
        let folder = try PrivateFolder()
        let store = try EncryptedFileCredentialStore.cheap(folder)
        try await store.save(Secret("x"), in: .yours)
        #expect(symlink(folder.path + "/nowhere", try store.path(of: .mine)) == 0)
        #expect(await storeError { _ = try await store.load(.mine) }?.isUnsafe == true)
        #expect(await storeError { try await store.save(Secret("y"), in: .mine) }?.isUnsafe == true)
        #expect(!FileManager.default.fileExists(atPath: folder.path + "/nowhere"))
    }

    @Test(arguments: ["/credentials", "/credentials/", "/credentials//"])
    func aSymbolicLinkInTheFoldersPlaceIsRefused(end: String) async throws {
        let folder = try PrivateFolder()
        try await EncryptedFileCredentialStore.cheap(folder).save(Secret("x"), in: .mine)
        try FileManager.default.moveItem(atPath: folder.credentials, toPath: folder.path + "/elsewhere")
        #expect(symlink(folder.path + "/elsewhere", folder.credentials) == 0)
        let store = try EncryptedFileCredentialStore(
            directory: folder.path + end, passphrase: FixedPassphrase(Secret("correct horse")), parameters: .cheap)
        for error in [
            await storeError { _ = try await store.load(.mine) },
            await storeError { try await store.save(Secret("y"), in: .mine) },
            await storeError { try await store.delete(.mine) },
        ] {
            #expect(error?.isUnsafe == true)
            #expect(error?.errorDescription?.contains("\(folder.credentials) is a symbolic link") == true)
        }
        #expect(try folder.names(in: folder.path + "/elsewhere").count == 1)
    }

    @Test func aLinkAboveTheFolderIsFollowed() async throws {
        let folder = try PrivateFolder()
        try FileManager.default.createDirectory(atPath: folder.path + "/real", withIntermediateDirectories: false)
        #expect(symlink(folder.path + "/real", folder.path + "/link") == 0)
        let store = try EncryptedFileCredentialStore(
            directory: folder.path + "/link/credentials", passphrase: FixedPassphrase(Secret("p")), parameters: .cheap)
        try await store.save(Secret("x"), in: .mine)
        #expect(try await store.load(.mine)?.text == "x")
        #expect(try folder.names(in: folder.path + "/real/credentials").count == 1)
    }

    @Test(arguments: ["a pipe", "a folder", "a socket", "a device"])
    func whatIsNotARegularFileIsRefusedAndHoldsNobodyUp(kind: String) async throws {
        let folder = try PrivateFolder()
        let store = try EncryptedFileCredentialStore.cheap(folder)
        try await store.save(Secret("x"), in: .yours)
        let path = try store.path(of: .mine)
        switch kind {
        case "a pipe": #expect(mkfifo(path, 0o600) == 0)
        case "a folder": #expect(mkdir(path, 0o700) == 0)
        case "a socket": #expect(mknod(path, S_IFSOCK | 0o600, 0) == 0)
        // Making one needs root; one that is there does as well.
        default: #expect(geteuid() != 0 || mknod(path, S_IFCHR | 0o600, 1 << 8 | 5) == 0)
        }
        if kind == "a device", geteuid() != 0 {
            var status = stat()
            #expect(stat("/dev/zero", &status) == 0)
            #expect(throws: CredentialStoreError.self) { try FileSafety.check(status, for: .credential, path: path) }
            return
        }
        for error in [
            await storeError { _ = try await store.load(.mine) },
            await storeError { try await store.save(Secret("y"), in: .mine) },
        ] {
            #expect(error?.isUnsafe == true)
            #expect(error?.errorDescription?.contains("\(path) is not a regular file") == true)
        }
    }

    @Test func aFileInTheFoldersPlaceIsRefused() async throws {
        let folder = try PrivateFolder()
        _ = try folder.write([1], to: "credentials")
        let store = try EncryptedFileCredentialStore.cheap(folder)
        let error = await storeError { try await store.save(Secret("y"), in: .mine) }
        #expect(error?.errorDescription?.contains("\(folder.credentials) is not a folder") == true)
        #expect(error?.isUnsafe == true)
    }

    @Test func aFileWithASecondNameIsRefused() async throws {
        let folder = try PrivateFolder()
        let store = try EncryptedFileCredentialStore.cheap(folder)
        try await store.save(Secret("x"), in: .mine)
        let path = try store.path(of: .mine)
        #expect(link(path, folder.path + "/second") == 0)
        for error in [
            await storeError { _ = try await store.load(.mine) },
            await storeError { try await store.save(Secret("y"), in: .mine) },
        ] {
            #expect(error?.isUnsafe == true)
            #expect(error?.errorDescription?.contains("\(path) has 2 names") == true)
        }
        #expect(unlink(folder.path + "/second") == 0)
        #expect(try await store.load(.mine)?.text == "x")
    }

    @Test func aRemedyIsOneWordToAShell() {
        var status = stat()
        status.st_mode = S_IFREG | 0o644
        status.st_uid = geteuid()
        let error = #expect(throws: CredentialStoreError.self) {
            try FileSafety.check(status, for: .credential, path: "/a b/o'neil; rm -rf")
        }
        #expect(error?.recoverySuggestion?.hasSuffix(#"chmod 600 '/a b/o'\''neil; rm -rf'"#) == true)
    }
}
