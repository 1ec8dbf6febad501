public import ChappieAuth
public import ChappieKeychainApple
import Synchronization

/// The keychain of an Apple device in memory, for a ``KeychainCredentialStore`` on any platform.
///
/// ```swift
/// let keychain = InMemoryKeychain()
/// let store = KeychainCredentialStore(calls: keychain.calls(accessGroups: ["TEAM.app", "TEAM.shared"]))
/// ```
/// It follows Apple's documentation for the names that are an item's key, access groups and accessibility. It proves
/// nothing about a device.
public final class InMemoryKeychain: Sendable {
    /// One of the four calls.
    public enum Call: Sendable, Hashable { case add, update, copyMatching, delete }

    /// The lock state of the device.
    public enum Lock: Sendable, Hashable {
        /// Every item can be read and stored.
        case unlocked
        /// Only items that are accessible after the first unlock can be read and stored.
        case locked
        /// The device has not been unlocked since it started, and no item can be read or stored.
        case notYetUnlocked
    }

    /// An item that is stored.
    public struct Item: Sendable {
        /// `kSecAttrService`.
        public let service: String
        /// `kSecAttrAccount`.
        public let account: String
        /// `kSecAttrAccessGroup`.
        public let accessGroup: String
        /// `kSecAttrGeneric`.
        fileprivate let owner: [UInt8]?
        /// `kSecAttrLabel`.
        public fileprivate(set) var label: String
        /// `kSecAttrAccessible`.
        public fileprivate(set) var accessibility: ChappieKeychainAccessibility
        /// `kSecValueData`. Another program may have stored anything, or nothing.
        public fileprivate(set) var value: Secret?
    }

    private struct State {
        var items: [Item] = []
        var lock = Lock.unlocked
        var failures: [Call: KeychainStatus] = [:]
        var interruptions: [Call: @Sendable () -> Void] = [:]
        var made: [Call] = []
        var watchers: [AsyncStream<Void>.Continuation] = []
    }

    private let state = Mutex(State())

    /// Creates an empty keychain.
    public init() {}

    /// Returns the calls of one program. They return at once.
    ///
    /// - Parameter accessGroups: The groups of the program's entitlements. The first one takes items without a group. A
    ///   program without any groups may not use the keychain.
    public func calls(accessGroups: [String] = ["TEAM.app"]) -> SecItemCalls {
        SecItemCalls(
            add: { [self] query, attributes in add(query, attributes, accessGroups) },
            update: { [self] query, attributes in update(query, attributes, accessGroups) },
            copyMatching: { [self] query in copyMatching(query, accessGroups) },
            delete: { [self] query in delete(query, accessGroups) },
            unlocks: { [self] in
                let (stream, continuation) = AsyncStream.makeStream(of: Void.self)
                state.withLock { $0.watchers.append(continuation) }
                return stream
            })
    }

    /// Every item.
    public var items: [Item] { state.withLock(\.items) }

    /// Every call so far, including those that failed.
    public var made: [Call] { state.withLock(\.made) }

    /// Locks or unlocks the device. An unlock is announced.
    public func set(_ lock: Lock) {
        state.withLock { state in
            state.lock = lock
            if lock == .unlocked { for watcher in state.watchers { watcher.yield() } }
        }
    }

    /// Makes each `call` fail with `status` without a change. `nil` ends the failures.
    public func fail(_ call: Call, with status: KeychainStatus?) { state.withLock { $0.failures[call] = status } }

    /// Runs `body` once, before the next `call`. It can do what another process does between two calls of a store, or
    /// lock the device.
    public func interrupt(_ call: Call, _ body: @escaping @Sendable () -> Void) {
        state.withLock { $0.interruptions[call] = body }
    }

    /// Gives every item this value, as another program of the access group could.
    public func overwrite(with value: Secret?) {
        state.withLock { state in
            for index in state.items.indices { state.items[index].value = value }
        }
    }

    // MARK: The calls

    private func add(_ query: KeychainQuery, _ attributes: KeychainAttributes, _ groups: [String]) -> KeychainStatus {
        perform(.add, query, groups) { state in
            let group = query.accessGroup ?? groups[0]
            guard !state.items.contains(where: { $0.isNamed(by: query) && $0.accessGroup == group }) else {
                return .duplicateItem
            }
            guard state.lock.allows(attributes.accessibility) else { return .interactionNotAllowed }
            state.items.append(
                Item(
                    service: query.service, account: query.account, accessGroup: group, owner: query.owner,
                    label: attributes.label,
                    accessibility: attributes.accessibility, value: attributes.value))
            return .success
        }
    }

    private func update(
        _ query: KeychainQuery, _ attributes: KeychainAttributes, _ groups: [String]
    ) -> KeychainStatus {
        perform(.update, query, groups) { state in
            let found = indices(of: query, in: state, groups)
            guard !found.isEmpty else { return .itemNotFound }
            let levels = found.map { state.items[$0].accessibility } + [attributes.accessibility]
            guard levels.allSatisfy(state.lock.allows) else { return .interactionNotAllowed }
            for index in found {
                state.items[index].label = attributes.label
                state.items[index].accessibility = attributes.accessibility
                if let value = attributes.value { state.items[index].value = value }
            }
            return .success
        }
    }

    private func copyMatching(_ query: KeychainQuery, _ groups: [String]) -> (KeychainStatus, Secret?) {
        var value: Secret?
        let status = perform(.copyMatching, query, groups) { state in
            guard let found = indices(of: query, in: state, groups).first else { return .itemNotFound }
            guard state.lock.allows(state.items[found].accessibility) else { return .interactionNotAllowed }
            value = state.items[found].value
            return .success
        }
        return (status, value)
    }

    private func delete(_ query: KeychainQuery, _ groups: [String]) -> KeychainStatus {
        perform(.delete, query, groups) { state in
            let found = indices(of: query, in: state, groups)
            for index in found.reversed() { state.items.remove(at: index) }
            return found.isEmpty ? .itemNotFound : .success
        }
    }

    private func perform(
        _ call: Call, _ query: KeychainQuery, _ groups: [String], _ work: (inout State) -> KeychainStatus
    ) -> KeychainStatus {
        // This is called outside of the lock, because it may make its own calls.
        state.withLock { $0.interruptions.removeValue(forKey: call) }?()
        return state.withLock { state in
            state.made.append(call)
            if let failure = state.failures[call] { return failure }
            guard let first = groups.first, groups.contains(query.accessGroup ?? first) else {
                return .missingEntitlement
            }
            return work(&state)
        }
    }

    /// Returns the indices of the items that a query finds. A search without a group covers every group of the program.
    private func indices(of query: KeychainQuery, in state: State, _ groups: [String]) -> [Int] {
        state.items.indices.filter { index in
            let item = state.items[index]
            return item.isNamed(by: query) && groups.contains(item.accessGroup)
                && (query.accessGroup ?? item.accessGroup) == item.accessGroup
                && (query.owner == nil || query.owner == item.owner)
        }
    }
}

extension InMemoryKeychain.Item {
    fileprivate func isNamed(by query: KeychainQuery) -> Bool { service == query.service && account == query.account }
}

extension InMemoryKeychain.Lock {
    fileprivate func allows(_ accessibility: ChappieKeychainAccessibility) -> Bool {
        switch (self, accessibility) {
        case (.unlocked, _), (.locked, .afterFirstUnlockThisDeviceOnly): true
        case (.locked, .whenUnlockedThisDeviceOnly), (.notYetUnlocked, _): false
        }
    }
}
