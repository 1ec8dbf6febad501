@_spi(ChappieInternals) public import ChappieAuth
import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
import SystemPackage

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// The place of one slot's file in the folder of the credentials. All calls are synchronous.
///
/// All files in the folder are opened through its descriptor, so that no other process can replace the folder between
/// two steps.
struct CredentialPlace: Sendable {
    private static let ending = ".credential"
    private let directory: String
    let name: String
    /// The digest that ties an encrypted file to its slot. The file's name contains it, and the tag covers it, so that
    /// a file that was moved to another slot's name does not open. It is a digest because an account may be an e-mail
    /// address, and may contain any character, including those that a path can't contain.
    let digest: [UInt8]

    var path: String { directory + "/" + name }

    /// Creates the place of `slot`.
    ///
    /// - Parameter directory: An absolute path without a slash at its end. The folder itself must not be a symbolic
    ///   link, but the folders above it may be.
    init(_ slot: CredentialSlot, in directory: String) throws(CredentialStoreError) {
        digest = try slot.digestBytes()
        name = CredentialSlot.hexadecimal(digest) + Self.ending
        self.directory = directory
    }

    /// Reads the file. Returns `nil` if there is none.
    ///
    /// - Throws: `corrupt`, `tooNew`, `unsafeFile`, `failed`.
    func read() throws(CredentialStoreError) -> CredentialFile? {
        guard let folder = try SafeFile.open(directory, for: .credentialFolder) else { return nil }
        return try read(path, in: folder)
    }

    private func read(_ path: String, in folder: Descriptor) throws(CredentialStoreError) -> CredentialFile? {
        guard let file = try SafeFile.open(path, in: folder, for: .credential) else { return nil }
        return try CredentialFile(SafeFile.contents(of: file, path, limit: CredentialFile.limit), path: path)
    }

    /// Reads the file. Returns `nil` if there is none or it is corrupt, since a corrupt file may be replaced.
    ///
    /// - Throws: `tooNew`, `unsafeFile`, `failed`.
    func readUnlessCorrupt() throws(CredentialStoreError) -> CredentialFile? {
        do throws(CredentialStoreError) {
            return try read()
        } catch .corrupt {
            return nil
        }
    }

    /// Returns the file of another slot in the same folder, or `nil` if there is none that can be read.
    func neighbour() -> CredentialFile? {
        guard let folder = try? SafeFile.open(directory, for: .credentialFolder) else { return nil }
        let names = (try? FileManager.default.contentsOfDirectory(atPath: directory)) ?? []
        return names.sorted().lazy.filter { $0.hasSuffix(Self.ending) && $0 != name }
            .compactMap { try? read(directory + "/" + $0, in: folder) }.first
    }

    /// Makes the folder if it is missing, and writes more bytes to it than a save will. The permissions do not show
    /// whether the disk is full or a quota is used up.
    ///
    /// - Throws: `unsafeFile`, or `failed`, also if no file can be written there.
    func prepare() throws(CredentialStoreError) {
        let folder = try SafeFile.openOrMakeFolder(directory)
        removeLeftovers(in: folder)
        var status = stat()
        let isThere = fstatat(folder.number, name, &status, AT_SYMLINK_NOFOLLOW) == 0
        let size = (isThere ? min(Int(status.st_size), CredentialFile.limit) : 0) + (16 << 10)
        let draft = try makeDraft(of: [UInt8](repeating: 0, count: size), in: folder)
        unlinkat(folder.number, draft.name, 0)
    }

    /// Replaces the file. Whenever the program or the machine stops, either the old file or the new one is there. Also
    /// removes the files that killed writers left.
    ///
    /// - Parameters:
    /// - isWanted: A closure that is called immediately before the earlier file is replaced. If it returns `false`, the
    ///   file is not replaced.
    /// - isSound: A closure that returns whether the file that was read back has the right content.
    /// - Throws: `notVerified`, `unsafeFile`, `failed`. The earlier file is then still there, unless the folder can't
    ///   be synchronized to the disk.
    func write(
        _ file: CredentialFile, isWanted: () -> Bool, isSound: (CredentialFile) throws(CredentialStoreError) -> Bool
    ) throws(CredentialStoreError) {
        let folder = try SafeFile.openOrMakeFolder(directory)
        removeLeftovers(in: folder)
        let draft = try makeDraft(of: file.bytes(), in: folder)
        do throws(CredentialStoreError) {
            let written = try read(directory + "/" + draft.name, in: folder)
            guard let written, try isSound(written) else { throw .notVerified }
            guard isWanted() else { throw .cancelled }
            guard renameat(folder.number, draft.name, folder.number, name) == 0 else {
                throw .system("\(path) can't be replaced")
            }
        } catch {
            unlinkat(folder.number, draft.name, 0)
            if case .corrupt = error { throw .notVerified }
            throw error
        }
        // The lock on the file must be held until the file has its final name.
        withExtendedLifetime(draft.file) {}
        try SafeFile.synchronize(folder, directory)
    }

    /// Removes the file, without following it, and the files that killed writers left. An absent file is not an error.
    ///
    /// - Throws: `unsafeFile` if the folder is unsafe, or `failed`.
    func remove() throws(CredentialStoreError) {
        guard let folder = try SafeFile.open(directory, for: .credentialFolder) else { return }
        removeLeftovers(in: folder)
        guard unlinkat(folder.number, name, 0) == 0 || errno == ENOENT else {
            throw .system("\(path) can't be removed")
        }
        try SafeFile.synchronize(folder, directory)
    }

    // MARK: Unfinished files

    /// An unfinished file, which this process has locked.
    private typealias Draft = (name: String, file: Descriptor)

    /// Writes these bytes to an unfinished file and synchronizes it to the disk.
    private func makeDraft(of bytes: [UInt8], in folder: Descriptor) throws(CredentialStoreError) -> Draft {
        let draft = try makeDraft(in: folder)
        do {
            try draft.file.write(bytes)
            try draft.file.synchronize()
        } catch {
            unlinkat(folder.number, draft.name, 0)
            throw .system("\(directory)/\(draft.name) can't be written", error)
        }
        return draft
    }

    /// Makes a new file that this process has locked. Its name is `.`, 32 random hexadecimal digits, and `.writing`.
    /// Before it is locked, another process may treat it as a leftover and lock or remove it. This process then makes
    /// another file.
    private func makeDraft(in folder: Descriptor) throws(CredentialStoreError) -> Draft {
        for _ in 0..<8 {
            let name = "." + CredentialSlot.hexadecimal(try CryptoLibrary.randomBytes(16)) + ".writing"
            let file: Descriptor
            do {
                file = try Descriptor(name, .writeOnly, [.create, .exclusiveCreate, .noFollow], in: folder)
            } catch {
                throw .system("no file can be made in \(directory)", error)
            }
            // The process's umask may have removed our permissions. It can't have added permissions for other users.
            // Some file systems refuse to change permissions, which is harmless if other users have none.
            let reason = fchmod(file.number, 0o600) == 0 ? nil : Errno.latest
            if let reason, try SafeFile.status(of: file, path).st_mode & 0o077 != 0 {
                unlinkat(folder.number, name, 0)
                throw .unusableFolder(
                    "the permissions of a file in \(directory) can't be set: \(reason)",
                    remedy: "Set XDG_DATA_HOME to a folder on a file system that has permissions.")
            }
            // Without locks, the only difference is that the file of a killed writer is not removed.
            let isLocked = (try? file.lockIfFree()) ?? true
            if isLocked, try SafeFile.status(of: file, path).st_nlink == 1 { return (name, file) }
            unlinkat(folder.number, name, 0)
        }
        throw .failed("no file in \(directory) can be locked")
    }

    /// Removes the files that killed writers left. A live writer holds the lock on its file. A leftover that can't be
    /// removed stays until the next call.
    private func removeLeftovers(in folder: Descriptor) {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: directory)) ?? []
        for name in names where Self.isDraftName(name) {
            guard let file = try? SafeFile.open(directory + "/" + name, in: folder, for: .credential),
                (try? file.lockIfFree()) == true
            else { continue }
            unlinkat(folder.number, name, 0)
        }
    }

    static func isDraftName(_ name: String) -> Bool {
        name.utf8.count == 41 && name.hasPrefix(".") && name.hasSuffix(".writing")
    }
}

extension CredentialSlot {
    /// Returns a SHA-256 digest of all names of the slot, in hexadecimal.
    @_spi(ChappieInternals) public func sha256Digest() throws(CredentialStoreError) -> String {
        Self.hexadecimal(try digestBytes())
    }

    fileprivate func digestBytes() throws(CredentialStoreError) -> [UInt8] {
        // A slot without an issuer has the same digest as before issuers were introduced.
        var bytes = Array("chappie credential slot \(issuer == nil ? 1 : 2)".utf8)
        // Each name follows its length, so that no two slots give the same bytes.
        for name in [issuer, service, account].compactMap(\.self) {
            bytes.append(name.utf8.count, count: 7)
            bytes += name.utf8
        }
        bytes.append(accessGroup == nil ? 0 : 1)
        bytes += (accessGroup ?? "").utf8
        return try CryptoLibrary.digest(of: bytes)
    }

    static func hexadecimal(_ bytes: [UInt8]) -> String {
        bytes.reduce(into: "") { $0 += ($1 < 16 ? "0" : "") + String($1, radix: 16) }
    }
}
