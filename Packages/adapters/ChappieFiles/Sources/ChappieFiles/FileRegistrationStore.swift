@_spi(ChappieInternals) public import ChappieAuth
@_spi(ChappieInternals) import ChappieCore

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// A ``RegistrationStore`` in one file that only its owner can access, `registrations.json`. The file is replaced in
/// one step under a lock between processes. It contains no secret, and is never in a folder of credentials.
///
/// A file that this version can't read completely is an error and stays unchanged, because the user would have to
/// register again after a registration was lost. Members that a later version has added are kept.
public struct FileRegistrationStore: RegistrationStore {
    /// The largest file, in bytes, which is enough for some thousand registrations.
    static let limit = 1 << 20
    /// The worker for the files, since a home folder on a network may not answer.
    private static let worker = StoreWorker(label: "chappie.registrations")
    private static let deadline = Duration.seconds(10)
    /// The slot that names the lock, which is next to the file. No credential has this name.
    private static let lockSlot = CredentialSlot(service: "com.chappie.registrations")
    private let directory: String?
    private let lock: FileCredentialLock
    private let lockLimit: Duration

    /// Creates a store.
    ///
    /// - Parameter directory: An absolute path, which must be the same for all programs that share registrations. The
    ///   folder is made if it is missing. `nil`, for a user without a home directory, makes each call fail.
    public init(directory: String?) { self.init(directory: directory, lockLimit: Self.deadline) }

    init(directory: String?, lockLimit: Duration) {
        self.directory = directory
        lock = FileCredentialLock(directory: directory)
        self.lockLimit = lockLimit
    }

    /// Reads the registration of `slot` from the file.
    ///
    /// - Throws: ``CredentialStoreError/unsafeFile(_:remedy:)`` for a file that other users can open or that is
    ///   damaged, `tooNew`, `timedOut`, or `failed`.
    public func registration(
        for slot: CredentialSlot
    ) async throws(CredentialStoreError) -> ChappieClientRegistration? {
        try await read().registration(for: slot)
    }

    /// Stores the registration of `slot`, or removes it if it is `nil`. Replaces the file.
    ///
    /// - Throws: The errors of ``registration(for:)``, and ``CredentialStoreError/busy(_:)`` if another process holds
    ///   the lock.
    public func save(
        _ registration: ChappieClientRegistration?, for slot: CredentialSlot
    ) async throws(CredentialStoreError) {
        guard try await change({ $0.set(registration, for: slot) }) else {
            throw .failed("the sign-in service gave this app a registration that can't be kept")
        }
    }

    /// Reads the id, or creates it under the lock, so that processes that ask at the same time get the same id.
    ///
    /// - Throws: The errors of ``save(_:for:)``.
    public func hostID() async throws(CredentialStoreError) -> String {
        if let id = try await read().hostID { return id }
        return try await change { $0.someHostID() }
    }

    private func path() throws(CredentialStoreError) -> String {
        guard let directory, directory.hasPrefix("/") else {
            throw CredentialStoreError(.homeless, for: "the registrations of this app")
        }
        return directory + "/registrations.json"
    }

    private func read() async throws(CredentialStoreError) -> RegistrationDocument {
        let path = try path()
        return try await Self.worker.perform(within: Self.deadline) { _ throws(CredentialStoreError) in
            try RegistrationDocument(contentsOf: path)
        }
    }

    /// Reads the file, changes its content and writes it. No other process does so at the same time.
    private func change<Output: Sendable>(
        _ body: @escaping @Sendable (inout RegistrationDocument) -> Output
    ) async throws(CredentialStoreError) -> Output {
        let path = try path()
        let hold = try await lock.acquire(Self.lockSlot, within: lockLimit)
        return try await Self.worker.perform(within: Self.deadline) { _ throws(CredentialStoreError) in
            // The lock is held until the file is written, even if the caller has stopped waiting.
            try withExtendedLifetime(hold) { () throws(CredentialStoreError) in
                var document = try RegistrationDocument(contentsOf: path)
                let output = body(&document)
                try document.write(to: path)
                return output
            }
        }
    }
}

extension FileRegistrationStore {
    /// Creates the store in the folder that all programs of this user share: `$XDG_STATE_HOME/chappie/registrations`,
    /// or `~/.local/state/chappie/registrations` if that variable is not set. On Apple's platforms the folder is the
    /// program's own. There it is excluded from backups, because the id of this machine would be wrong on another device.
    ///
    /// - Parameter variable: A closure that looks up a variable of the process.
    public static func userDefault(_ variable: (String) -> String?) -> FileRegistrationStore {
        let directory = UserFolders.ofPlatform(variable).state.map { $0 + "/registrations" }
        #if canImport(Security)
            if let directory {
                PrivateFile.makeFolder(of: directory + "/")
                FolderCare.apply(.completeUntilFirstUserAuthentication, isExcludedFromBackup: true, to: directory)
            }
        #endif
        return FileRegistrationStore(directory: directory)
    }
}

/// The content of the file: `{"version": 1, "host_id": "urn:uuid:…", "registrations": [{…}]}`.
private struct RegistrationDocument {
    /// The maximum length of a name, an id or an address, in bytes.
    private static let textLimit = 4 << 10
    private static let version = 1
    private var root: ChappieJSONObject = ["version": .integer(Self.version)]
    private var entries: [ChappieJSONObject] = []

    /// Reads the file at `path`. Creates an empty document if there is none.
    init(contentsOf path: String) throws(CredentialStoreError) {
        let advice = "Nothing was changed. Move the file away and sign in again, which registers the app again."
        let bytes: [UInt8]
        do throws(WholeFile.Failure) {
            bytes = try WholeFile.contents(of: path, limit: FileRegistrationStore.limit, kind: .ownAndPrivate)
        } catch {
            switch error {
            case .missing:
                self.init()
                return
            case .open, .changeable:
                throw .unsafeFile(
                    "\(path) is not a file that only this user can open",
                    remedy: "Make it so (chmod 600), or move it away and sign in again.")
            case .tooLarge, .directory, .special:
                throw .unsafeFile("\(path) holds no registrations of apps: \(error.words)", remedy: advice)
            case .system(let words):
                let reason = "\(path) can't be read: \(words)"
                guard let remedy = PathOwner.remedy(for: path) else { throw .failed(reason) }
                throw .unusableFolder(reason, remedy: remedy)
            }
        }
        let root = (try? ChappieJSON(parsing: bytes))?.object
        if let version = root?["version"]?.int, version > Self.version {
            throw .tooNew(path, found: version, known: Self.version)
        }
        do throws(Damage) {
            try self.init(root)
        } catch {
            throw .unsafeFile("\(path) holds no registrations of apps: \(error.words)", remedy: advice)
        }
    }

    private init() {}

    private struct Damage: Error {
        let words: String
    }

    private init(_ root: ChappieJSONObject?) throws(Damage) {
        guard let root else { throw Damage(words: "it is not JSON") }
        guard root["version"]?.int == Self.version else { throw Damage(words: "it has no version") }
        self.root = root
        if let id = root["host_id"] {
            guard let id = id.string, id.hasPrefix(Self.hostPrefix),
                UUID(uuidString: String(id.dropFirst(Self.hostPrefix.count))) != nil
            else { throw Damage(words: "the id of this machine is not a UUID") }
        }
        if let list = root["registrations"] {
            guard let list = list.array else { throw Damage(words: "its registrations are not a list") }
            entries = try list.map { entry throws(Damage) in
                guard let entry = entry.object, Self.slot(of: entry) != nil, Self.registration(in: entry) != nil else {
                    throw Damage(words: "a registration in it can't be read")
                }
                return entry
            }
        }
    }

    /// Writes the file, which is on the disk when this returns.
    func write(to path: String) throws(CredentialStoreError) {
        var root = root
        root["registrations"] = entries.isEmpty ? nil : .array(entries.map { .object($0) })
        let bytes = ChappieJSON.object(root).serializedBytes()
        guard bytes.count <= FileRegistrationStore.limit else {
            throw .failed("\(path) has no room for another registration")
        }
        do {
            try PrivateFile.replace(path, with: bytes)
        } catch {
            throw CredentialStoreError(PathOwner.problem(writing: path, error))
        }
    }

    // MARK: The id of the machine

    private static let hostPrefix = "urn:uuid:"

    var hostID: String? { root["host_id"]?.string }

    /// Returns the id of this machine. Creates it if it is missing.
    mutating func someHostID() -> String {
        if let hostID { return hostID }
        let id = Self.hostPrefix + UUID().uuidString.lowercased()
        root["host_id"] = .string(id)
        return id
    }

    // MARK: Registrations

    func registration(for slot: CredentialSlot) -> ChappieClientRegistration? {
        entries.first { Self.slot(of: $0) == slot }.flatMap(Self.registration)
    }

    /// Stores the registration, or removes it if it is `nil`. Returns whether it has a form that can be read again.
    mutating func set(_ registration: ChappieClientRegistration?, for slot: CredentialSlot) -> Bool {
        let index = entries.firstIndex { Self.slot(of: $0) == slot }
        guard let registration else {
            if let index { entries.remove(at: index) }
            return true
        }
        var entry = index.map { entries[$0] } ?? Self.entry(of: slot)
        entry["client_id"] = .string(registration.clientID)
        entry["app_name"] = .string(registration.appName)
        entry["subject"] = registration.subject.map { .string($0) }
        entry["email"] = registration.email.map { .string($0) }
        guard Self.registration(in: entry) == registration, Self.slot(of: entry) == slot else { return false }
        if let index { entries[index] = entry } else { entries.append(entry) }
        return true
    }

    private static func entry(of slot: CredentialSlot) -> ChappieJSONObject {
        var entry: ChappieJSONObject = ["service": .string(slot.service), "account": .string(slot.account)]
        entry["access_group"] = slot.accessGroup.map { .string($0) }
        entry["issuer"] = slot.issuer.map { .string($0) }
        return entry
    }

    private static func slot(of entry: ChappieJSONObject) -> CredentialSlot? {
        guard let service = text(entry["service"]), let account = text(entry["account"]),
            let accessGroup = optionalText(entry["access_group"]), let issuer = optionalText(entry["issuer"])
        else { return nil }
        return CredentialSlot(service: service, account: account, accessGroup: accessGroup, issuer: issuer)
    }

    private static func registration(in entry: ChappieJSONObject) -> ChappieClientRegistration? {
        guard let clientID = entry["client_id"]?.string, let appName = text(entry["app_name"]),
            let subject = optionalText(entry["subject"]), let email = optionalText(entry["email"])
        else { return nil }
        let registration = ChappieClientRegistration(
            clientID: clientID, subject: subject, email: email, appName: appName)
        return registration.isWellFormed ? registration : nil
    }

    private static func text(_ value: ChappieJSON?) -> String? {
        value?.string.flatMap { $0.utf8.count <= textLimit ? $0 : nil }
    }

    /// Returns the text, `.some(nil)` if it is missing, or `nil` if the value is not a valid text.
    private static func optionalText(_ value: ChappieJSON?) -> String?? {
        value == nil ? .some(nil) : text(value).map(Optional.some)
    }
}
