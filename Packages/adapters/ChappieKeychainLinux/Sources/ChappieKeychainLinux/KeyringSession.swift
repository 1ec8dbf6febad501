import CSecret
@_spi(ChappieInternals) import ChappieAuth

/// The limits of a keyring call.
struct KeyringLimits {
    /// The limit for the service's own work.
    let work: Duration
    /// The limit for a question to the user, or `nil` if the service must not ask the user to unlock anything.
    let prompt: Duration?
    /// The program's environment, which specifies where the settings of the user's keyring are.
    let environment: [String: String]
}

/// A connection to the bus and an encrypted session with the keyring service on it. Both outlive the call that created
/// them, so that a renewed token is stored sooner.
final class KeyringConnection {
    let bus: LibraryObject
    let service: LibraryObject
    /// The slot of the last search and the path of its item, if the search found exactly one. The item itself is not
    /// kept, because it contains the secret.
    var found: (slot: CredentialSlot, path: String)?

    init(address: String, _ cancellation: Cancellation) throws {
        let bus = try BusConnection(address: address, cancellation: cancellation).object
        self.bus = bus
        service = LibraryObject(
            owning: try LibraryError.catching { csecret_service_open(bus.pointer, cancellation.pointer, $0) })
    }
}

/// The use of a ``KeyringConnection`` by one call. Its methods block. Use it only on a worker's thread. They throw
/// ``CredentialStoreError`` and ``LibraryError``.
///
/// <https://specifications.freedesktop.org/secret-service/latest/>
struct KeyringSession {
    static let service = "org.freedesktop.secrets"
    private static let path = "/org/freedesktop/secrets"
    private static let interface = "org.freedesktop.Secret."
    private static let locked = CredentialStoreError.locked("it has to be unlocked before it can be used")
    private static let unexpectedAnswer = CredentialStoreError.failed(
        "the keyring service's answer does not follow its protocol")

    let shared: KeyringConnection
    private let limits: KeyringLimits
    private let storeCall: StoreCall
    private let connection: BusConnection

    init(_ shared: KeyringConnection, _ limits: KeyringLimits, _ call: StoreCall, _ cancellation: Cancellation) {
        self.shared = shared
        self.limits = limits
        storeCall = call
        connection = BusConnection(shared.bus, cancellation: cancellation)
    }

    // MARK: Loading, saving, deleting

    func load(_ slot: CredentialSlot) throws -> Secret? {
        guard let newest = try findUnlocking(slot).first else { return nil }
        let session = secret_service_get_session_dbus_path(shared.service.pointer).map { String(cString: $0) } ?? "/"
        let answer = try call("GetSecret", of: "Item", at: newest, [.object(session)])
        guard let encoded = answer.member(0, ofTuple: "((oayays))"),
            let value = secret_service_decode_dbus_secret(shared.service.pointer, encoded.pointer)
        else { throw CredentialStoreError.corrupt("the keyring has an item for it, but its secret can't be decoded") }
        defer { secret_value_unref(UnsafeMutableRawPointer(value)) }
        var count = 0
        let bytes = secret_value_get(value, &count)
        return Secret([UInt8](UnsafeRawBufferPointer(start: bytes, count: count)))
    }

    /// Stores `secret` and reads it back through a new search.
    func save(_ secret: Secret, in slot: CredentialSlot) throws {
        let contentType = secret.withBytes(CredentialItem.contentType)
        let value = secret.withBytes { bytes in
            bytes.withMemoryRebound(to: CChar.self) { secret_value_new($0.baseAddress, $0.count, contentType) }
        }
        guard let value else { throw CredentialStoreError.failed("there is no memory for the secret") }
        defer { secret_value_unref(UnsafeMutableRawPointer(value)) }
        try write(value, in: slot)
        guard try load(slot) == secret else { throw CredentialStoreError.notVerified }
    }

    func delete(_ slot: CredentialSlot) throws {
        let items = try findUnlocking(slot)
        shared.found = nil
        for item in items { try deleteItem(item) }
    }

    /// Runs the steps of a save that precede the write.
    func prepareToSave(in slot: CredentialSlot) throws {
        // An existing item is replaced in its own collection.
        if try findUnlocking(slot).isEmpty { _ = try defaultCollectionForNewItems() }
    }

    /// Replaces the value of the slot's item, or creates an item.
    ///
    /// The service's own "replace" does not fit. It replaces an item that has *at least* the same attributes, so a slot
    /// without an access group would overwrite a slot with a group.
    private func write(_ value: OpaquePointer, in slot: CredentialSlot) throws {
        // If anything is wrong with the item of the earlier search, the new search detects it.
        if let found = shared.found, found.slot == slot, (try? set(value, ofItemAt: found.path)) != nil { return }
        let items = try findUnlocking(slot)
        guard let newest = items.first else { return try create(value, in: slot) }
        try set(value, ofItemAt: newest)
        for surplus in items.dropFirst() { try deleteItem(surplus) }
    }

    private func set(_ value: OpaquePointer, ofItemAt path: String) throws {
        _ = try call("SetSecret", of: "Item", at: path, [.value(encoded(value))])
    }

    private func create(_ value: OpaquePointer, in slot: CredentialSlot) throws {
        let collection = try defaultCollectionForNewItems()
        let properties: [String: BusArgument] = [
            Self.interface + "Item.Label": .text(slot.label),
            Self.interface + "Item.Attributes": .texts(CredentialItem.attributes(of: slot)),
        ]
        let arguments: [BusArgument] = [.properties(properties), .value(try encoded(value)), .bool(false)]
        try mayPrompt {
            let answer = try call("CreateItem", of: "Collection", at: collection, arguments)
            try run(promptIn: answer.member(1, ofTuple: "(oo)"))
        }
    }

    private func deleteItem(_ path: String) throws {
        try mayPrompt {
            // Another program may already have deleted it.
            let answer = try unlessGone { try call("Delete", of: "Item", at: path) }
            if let answer { try run(promptIn: answer.member(0, ofTuple: "(o)")) }
        }
    }

    /// Returns the secret, encoded for the session of this connection.
    private func encoded(_ value: OpaquePointer) throws -> BusValue {
        guard let encoded = secret_service_encode_dbus_secret(shared.service.pointer, value) else {
            throw CredentialStoreError.failed("the secret can't be encoded for the keyring service")
        }
        return BusValue(retaining: encoded)
    }

    // MARK: Searching

    /// Returns the paths of the slot's readable items, beginning with the most recently modified one. If there are
    /// none, the slot is empty. There is more than one only if two programs created an item at the same time.
    ///
    /// First unlocks a locked item, or a locked keyring that may contain one.
    ///
    /// - Throws: The errors of ``unlock(_:)``.
    private func findUnlocking(_ slot: CredentialSlot) throws -> [String] {
        // At most two attempts are made. An item may be in one locked keyring, and if it turns out to belong to another
        // slot, the default keyring may also be locked.
        var attempts = 0
        while true {
            var (items, locked) = try find(slot)
            guard items.isEmpty else { return items }
            // An empty answer from a locked keyring does not prove that the slot is empty.
            if locked.isEmpty, let collection = try defaultCollection(), try isLocked(collection) {
                locked = [collection]
            }
            guard !locked.isEmpty else { return [] }
            guard attempts < 2 else { throw Self.locked }
            attempts += 1
            try unlock(locked)
        }
    }

    /// Unlocks these objects. The user is asked only if the caller allows it.
    ///
    /// The service is asked in any case, because it may need no answer from the user. The service decides whether a
    /// prompt shows something. For this reason, without permission only a prompt is run that is known to show nothing.
    ///
    /// - Throws: `locked`, and the errors of ``run(promptIn:)``.
    private func unlock(_ objects: [String]) throws {
        if let limit = limits.prompt { storeCall.allow(limit) }
        let answer = try call("Unlock", of: "Service", at: Self.path, [.objects(objects)])
        let prompt = answer.member(1, ofTuple: "(aoo)")
        guard limits.prompt == nil else {
            try run(promptIn: prompt)
            return storeCall.allow(limits.work)
        }
        guard let path = prompt?.text else { throw Self.unexpectedAnswer }
        guard path != "/" else { return }
        let unseen = KeyringPrompt(of: Self.service, at: path, on: connection)
        guard let wallet = try KWallet(behind: Self.service, on: connection, limits.environment),
            try objects.allSatisfy(wallet.opensSilently)
        else {
            unseen.dismiss()
            throw Self.locked
        }
        guard try unseen.run(within: KWallet.patience) == .accepted else { throw Self.locked }
    }

    /// Returns the slot's readable items, and the items in a locked keyring that may belong to the slot. A locked item
    /// does not show all of its attributes.
    private func find(_ slot: CredentialSlot) throws -> (items: [String], locked: [String]) {
        let attributes = CredentialItem.attributes(of: slot)
        let answer = try call("SearchItems", of: "Service", at: Self.path, [.texts(attributes)])
        guard let readable = answer.member(0, ofTuple: "(aoao)")?.paths,
            let locked = answer.member(1, ofTuple: "(aoao)")?.paths
        else { throw Self.unexpectedAnswer }
        var items: [(path: String, modified: UInt64)] = []
        for path in readable {
            // An item that was removed since the search has no properties.
            let answer = try unlessGone {
                try connection.call(
                    "GetAll", of: "org.freedesktop.DBus.Properties", at: path, in: Self.service,
                    [.text(Self.interface + "Item")])
            }
            guard let properties = answer?.member(0, ofTuple: "(a{sv})") else { continue }
            // A search finds every item that has *at least* the requested attributes.
            let stored = properties["Attributes"]
            guard
                [CredentialItem.accessGroup, CredentialItem.issuer].allSatisfy({ stored?[$0]?.text == attributes[$0] })
            else { continue }
            items.append((path, properties["Modified"]?.number ?? 0))
        }
        items.sort { $0.modified > $1.modified }
        shared.found = items.count == 1 ? (slot, items[0].path) : nil
        return (items.map(\.path), locked)
    }

    /// Returns the path of the unlocked default collection.
    ///
    /// - Throws: `absent` if the keyring has no default collection, `locked`.
    private func defaultCollectionForNewItems() throws -> String {
        guard let collection = try defaultCollection() else {
            throw CredentialStoreError.absent(
                "the keyring service has no default keyring; create one, for example with Seahorse")
        }
        guard try !isLocked(collection) else { throw Self.locked }
        return collection
    }

    /// Returns the path of the keyring for new items, or `nil` if the service has none.
    private func defaultCollection() throws -> String? {
        let answer = try call("ReadAlias", of: "Service", at: Self.path, [.text("default")])
        guard let path = answer.member(0, ofTuple: "(o)")?.text else { throw Self.unexpectedAnswer }
        return path == "/" ? nil : path
    }

    private func isLocked(_ collection: String) throws -> Bool {
        let value = try unlessGone {
            try connection.property("Locked", of: Self.interface + "Collection", at: collection, in: Self.service)
        }
        return value??.bool ?? true
    }

    // MARK: Asking the service, which may ask the user

    /// Calls a method of the Secret Service.
    private func call(
        _ method: String, of interface: String, at path: String, _ arguments: [BusArgument] = []
    ) throws -> BusValue {
        try connection.call(method, of: Self.interface + interface, at: path, in: Self.service, arguments)
    }

    /// Runs `body`. Returns `nil` if the object that it calls no longer exists.
    private func unlessGone<Output>(_ body: () throws -> Output) throws -> Output? {
        do {
            return try body()
        } catch let fault as LibraryError where fault.saysThereIsNoSuchObject {
            return nil
        }
    }

    /// Runs a step in which the service may ask the user. If prompts are allowed, the step has at least a prompt's
    /// limit.
    private func mayPrompt(_ step: () throws -> Void) throws {
        guard let limit = limits.prompt, limit > limits.work else { return try step() }
        storeCall.allow(limit)
        try step()
        storeCall.allow(limits.work)
    }

    /// Runs the prompt whose path is a method's answer, if there is one.
    ///
    /// - Throws: `denied` if the user dismissed it, `absent` if the service disappeared in the meantime.
    private func run(promptIn answer: BusValue?) throws {
        guard let path = answer?.text else { throw Self.unexpectedAnswer }
        // This path means that there is no prompt.
        guard path != "/" else { return }
        switch try KeyringPrompt(of: Self.service, at: path, on: connection).run() {
        case .accepted: return
        case .dismissed, .unanswered: throw CredentialStoreError.denied("the prompt was dismissed")
        case .vanished: throw CredentialStoreError.absent("the keyring service went away while it asked the user")
        }
    }
}

/// The form of a slot in a keyring.
enum CredentialItem {
    static let accessGroup = "access-group"
    static let issuer = "issuer"

    /// Returns the attributes that are stored with the item and searched for.
    ///
    /// libsecret keeps the schema's name in `xdg:schema`.
    static func attributes(of slot: CredentialSlot) -> [String: String] {
        var attributes = [
            "xdg:schema": "com.chappie.Credential", "service": slot.service, "account": slot.account,
        ]
        attributes[accessGroup] = slot.accessGroup
        attributes[issuer] = slot.issuer
        return attributes
    }

    /// Returns the content type of a secret.
    ///
    /// KeePassXC relies on this. It stores JSON as the text of a password, which loses every byte that is not text, and
    /// stores other bytes as an attachment.
    static func contentType(of secret: UnsafeBufferPointer<UInt8>) -> String {
        let binary = "application/octet-stream"
        guard secret.first == UInt8(ascii: "{"), !secret.contains(where: { $0 < 0x20 || $0 == 0x7F }) else {
            return binary
        }
        // This does not create a string, which would leave a copy of the secret in memory.
        let isInvalid = transcode(
            secret.makeIterator(), from: UTF8.self, to: UTF32.self, stoppingOnError: true, into: { _ in })
        return isInvalid ? binary : "application/json"
    }
}
