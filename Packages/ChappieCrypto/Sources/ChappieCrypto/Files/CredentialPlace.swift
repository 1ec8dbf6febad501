import ChappieAuth

/// Where one slot's file lies, and what is done there. Synchronous.
struct CredentialPlace: Sendable {
    let directory: String
    let name: String
    /// Of the slot.
    let digest: [UInt8]

    init(_ slot: CredentialSlot, in directory: String) throws(CredentialStoreError) {
        self.directory = directory
        digest = try SlotDigest.make(for: slot)
        name = SlotDigest.fileName(for: digest)
    }

    var path: String { directory + "/" + name }

    /// - Throws: `corrupt`, `unsafeFile`, `failed`.
    func read() throws(CredentialStoreError) -> CredentialFile? {
        guard let directory = try CredentialDirectory.open(directory, creating: false),
            let bytes = try directory.read(name)
        else { return nil }
        return try CredentialFile(bytes, path: path)
    }

    /// `nil` also for a file that can't be read as one, and may be replaced.
    ///
    /// - Throws: `unsafeFile`, `failed`.
    func readUnlessCorrupt() throws(CredentialStoreError) -> CredentialFile? {
        do throws(CredentialStoreError) {
            return try read()
        } catch .corrupt {
            return nil
        }
    }

    /// Makes the folder where it is missing.
    ///
    /// - Throws: `unsafeFile`; `failed`, also when nothing may be written there.
    func prepare() throws(CredentialStoreError) {
        guard let directory = try CredentialDirectory.open(directory, creating: true) else {
            throw .failed("the folder \(directory) was removed while it was being used")
        }
        try directory.checkWritable()
    }

    /// - Parameters:
    ///   - isWanted: Asked last before the earlier file is replaced.
    ///   - isSound: Whether the file, as it was read back, holds what it should.
    /// - Throws: `notVerified`, `unsafeFile`, `failed`.
    func write(
        _ file: CredentialFile, isWanted: () -> Bool, isSound: (CredentialFile) throws(CredentialStoreError) -> Bool
    ) throws(CredentialStoreError) {
        guard let directory = try CredentialDirectory.open(directory, creating: true) else {
            throw .failed("the folder \(directory) was removed while it was being used")
        }
        directory.removeLeftovers()
        try directory.replace(name, with: file.bytes()) { bytes throws(CredentialStoreError) in
            do throws(CredentialStoreError) {
                guard let bytes, try isSound(CredentialFile(bytes, path: path)) else { throw .notVerified }
            } catch .corrupt {
                throw .notVerified
            }
            guard isWanted() else { throw .cancelled }
        }
    }

    /// - Throws: `unsafeFile` when the folder is; `failed`.
    func remove() throws(CredentialStoreError) {
        guard let directory = try CredentialDirectory.open(directory, creating: false) else { return }
        directory.removeLeftovers()
        try directory.remove(name)
    }
}
