public import ChappieAuth
import Synchronization

/// A ``RegistrationStore`` in memory, with failures on demand.
public final class InMemoryRegistrationStore: RegistrationStore {
    private struct State {
        var registrations: [CredentialSlot: ChappieClientRegistration] = [:]
        var saved: [ChappieClientRegistration] = []
        var failures = 0
        var error = CredentialStoreError.failed("the disk is full")
    }

    private let id: String
    private let state = Mutex(State())

    /// Creates an empty store.
    ///
    /// - Parameter hostID: The id of the machine. Default: a fixed one.
    public init(hostID: String = "urn:uuid:7d6ee1c2-9f0b-4c8e-8a51-3f1f6f1b9d20") { id = hostID }

    /// The registration for `slot`, regardless of failures.
    public subscript(slot: CredentialSlot) -> ChappieClientRegistration? {
        get { state.withLock { $0.registrations[slot] } }
        set { state.withLock { $0.registrations[slot] = newValue } }
    }

    /// Every registration that was saved, in order.
    public var saved: [ChappieClientRegistration] { state.withLock(\.saved) }

    /// Makes the next `times` saves fail.
    public func failSaving(with error: CredentialStoreError, times: Int = 1) {
        state.withLock { state in
            state.error = error
            state.failures = times
        }
    }

    /// Returns the registration for `slot`.
    public func registration(for slot: CredentialSlot) async throws(CredentialStoreError) -> ChappieClientRegistration?
    { self[slot] }

    /// Replaces or removes the registration for `slot`.
    public func save(
        _ registration: ChappieClientRegistration?, for slot: CredentialSlot
    ) async throws(CredentialStoreError) {
        let error = state.withLock { state -> CredentialStoreError? in
            guard state.failures == 0 else {
                state.failures -= 1
                return state.error
            }
            state.registrations[slot] = registration
            if let registration { state.saved.append(registration) }
            return nil
        }
        if let error { throw error }
    }

    /// Returns the id that the initialiser was given.
    public func hostID() async throws(CredentialStoreError) -> String { id }
}

/// A ``CallbackListener`` without a socket, for which a test is the browser.
///
/// ```swift
/// let answer = listener.get("/auth/callback?code=…")
/// ```
public final class InMemoryCallbackListener: CallbackListener {
    private struct State {
        var ports: [Int] = []
        var open: [Int: @Sendable ([UInt8], CallbackPeer) -> [UInt8]] = [:]
    }

    private let state = Mutex(State())
    private let error: DesktopError?
    private let taken: Set<Int>

    /// Creates a listener.
    ///
    /// - Parameters:
    ///   - error: The failure of every ``listen(at:_:)``. Default: none.
    ///   - taken: The ports at which another program listens. Default: none.
    public init(failingWith error: DesktopError? = nil, taken: Set<Int> = []) {
        self.error = error
        self.taken = taken
    }

    /// The ports that were opened, in order. If the system chooses them, they are 50001, 50002 and so on.
    public var ports: [Int] { state.withLock(\.ports) }
    /// The number of listeners that are not closed.
    public var openCount: Int { state.withLock(\.open.count) }

    /// Sends a GET request to the newest listener, as a browser does.
    ///
    /// - Parameters:
    ///   - target: The path and the query.
    ///   - host: The host of the request. Default: 127.0.0.1 and the port.
    ///   - peer: The user who sends the request. Default: this process's own.
    /// - Returns: The response, or `nil` if the listener is closed and the connection is refused.
    @discardableResult
    public func get(_ target: String, host: String? = nil, from peer: CallbackPeer = .sameUser) -> String? {
        let host = host ?? "127.0.0.1:\(ports.last ?? 0)"
        return send("GET \(target) HTTP/1.1\r\nHost: \(host)\r\nAccept: text/html\r\n\r\n", from: peer)
    }

    /// Sends these bytes as the head of a request to the newest listener.
    @discardableResult
    public func send(_ head: String, from peer: CallbackPeer = .sameUser) -> String? {
        // The answer is called outside of the lock, since the sign-in may close the listener in it.
        let answer = state.withLock { state in state.ports.last.flatMap { state.open[$0] } }
        return answer.map { String(decoding: $0(Array(head.utf8), peer), as: UTF8.self) }
    }

    /// Opens the first port that is free.
    public func listen(
        at ports: [Int], _ answer: @escaping @Sendable (_ head: [UInt8], _ peer: CallbackPeer) -> [UInt8]
    ) throws(DesktopError) -> any CallbackListening {
        if let error { throw error }
        let port = state.withLock { state -> Int? in
            guard let free = ports.first(where: { !taken.contains($0) && state.open[$0] == nil }) else { return nil }
            let port = free == 0 ? 50_001 + state.ports.count : free
            state.ports.append(port)
            state.open[port] = answer
            return port
        }
        guard let port else { throw DesktopError("No port is free.") }
        return Listening(port: port, owner: self)
    }

    private struct Listening: CallbackListening {
        let port: Int
        let owner: InMemoryCallbackListener

        func close() { _ = owner.state.withLock { $0.open.removeValue(forKey: port) } }

        func closed() async {}
    }
}
