@_spi(ChappieInternals) public import ChappieAuth
@_spi(ChappieInternals) public import ChappieCore
import HTTPTypes
import Synchronization

/// The user's sign-in at a tool server that is reached over HTTP. It uses OAuth as the protocol describes it
/// (modelcontextprotocol.io/specification/2026-07-28/basic/authorization).
///
/// ```swift
/// let authorization = ChappieMCPAuthorization(
///     server: url, name: "docs", store: store, transport: transport)
/// let server = ChappieMCPServer(url: url, transport: transport, authorization: authorization, name: "docs")
/// ```
///
/// Its tokens are sent only to that server. They are renewed before they end, and once after the server has refused
/// one. Only one of all processes with the same store and lock renews at a time.
/// ``signIn(scopes:listener:cryptography:entropy:onPage:)`` is for a user who asks for it. If a server requires a
/// sign-in, ``ChappieMCPServer/tools()`` throws an error with the code ``ChappieMCPError/Code/signInNeeded`` and opens
/// no page.
public final class ChappieMCPAuthorization: Sendable {
    private struct State {
        /// The sign-in that is in use, or `nil` before it is read and if there is none.
        var grant: OAuthGrant?
        /// Whether the store was read.
        var isRead = false
        /// The mark of the last change by any process at the time when the store was read.
        var mark: [UInt8]?
        /// The reason why the store gave no answer.
        var storeError: CredentialStoreError?
        /// New tokens that the store did not accept, and the refresh token that was used up for them.
        var unsaved: (grant: OAuthGrant, usedUp: Secret)?
    }

    /// The time after which an authorization server counts as unreachable.
    private static let deadline = Duration.seconds(30)
    /// The time that another process has to finish its renewal.
    private static let lockPatience = Duration.seconds(45)

    /// The slot of the sign-in in the store. Its service is `com.chappie.tools`, and its issuer is the server's
    /// address. The address contains a query only as a digest, because some services put a key there, and names are not
    /// secret.
    public let slot: CredentialSlot
    /// The server's address.
    public let url: URL
    private let name: String
    let clientID: String?
    let scopes: [String]
    private let store: any SharedCredentialStore
    private let issuer: IssuerClient
    let clock: any ChappieClock
    private let state = Mutex(State())
    /// The lock that allows one read or renewal at a time in this process.
    private let line = AsyncLock()
    /// The worker that reads the mark of the last change, which may be on a disk that does not answer.
    private let worker = StoreWorker(label: "chappie.tool-sign-in")

    /// Creates the sign-in at the server at `url`. Nothing is read or sent yet.
    ///
    /// - Parameters:
    ///   - url: the server's address, as ``ChappieMCPServer`` has it.
    ///   - name: the server's name, for errors.
    ///   - account: separates the sign-ins of several users. Default `default`.
    ///   - clientID: the id of a program that its owner has registered at the authorization server, without a secret
    ///     and with `http://127.0.0.1/callback` as its redirect address, at any port. Default `nil`: this program
    ///     registers itself.
    ///   - scopes: permissions to request in addition to the server's own. Default: none.
    ///   - store: stores the tokens. Its lock keeps other processes from renewing at the same time.
    ///   - transport: reaches the authorization server.
    ///   - clock: decides when a token is due. Default: the machine's.
    public init(
        server url: URL, name: String, account: String = "default", clientID: String? = nil, scopes: [String] = [],
        store: any SharedCredentialStore, transport: any HTTPTransport,
        clock: any ChappieClock = SystemClock()
    ) {
        self.url = url
        self.name = name
        self.clientID = clientID
        self.scopes = scopes
        self.store = store
        issuer = IssuerClient(transport: transport, clock: clock)
        self.clock = clock
        let address = url.absoluteString.split(separator: "?", maxSplits: 1).map(String.init)
        let query = address.count > 1 ? "?" + FNV1a.hexadecimal([address[1]]) : ""
        slot = CredentialSlot(
            service: "com.chappie.tools", account: account, issuer: (address.first ?? "") + query)
    }

    // MARK: Requests

    /// Returns the token for the next request, or `nil` without a sign-in. This method may read the store and renew the
    /// tokens.
    ///
    /// - Parameter refused: a token that the server has just refused.
    /// - Throws: ``OAuthRefusal`` or `CancellationError`. After a cancellation, a renewal continues to its end (see
    ///   ``settle()``).
    func token(refused: Secret? = nil) async throws -> Secret? {
        let mark = await changeMark()
        let known = state.withLock { state -> OAuthGrant.NextStep? in
            guard state.isRead, state.mark == mark else { return nil }
            return state.grant?.nextStep(refused: refused, at: clock.now) ?? .nothing
        }
        switch known {
        case .use(let token): return token
        case .nothing: return nil
        case .renew, .signIn, nil: break
        }
        let result = Promise<Secret?>()
        let ticket = line.reserve()
        Task.detached { [self] in
            do {
                try await line.enter(ticket)
                result.fulfil(.success(try await prepared(refused)))
            } catch {
                result.fulfil(.failure(error))
            }
            line.leave(ticket)
        }
        return try await result.value()
    }

    /// Waits for a renewal that is under way, because interrupting it may use up the sign-in. This method also offers
    /// the store again the tokens that it did not accept.
    public func settle() async {
        _ = try? await withDeadline(.seconds(90), clock: clock, late: CancellationError()) { [self] in
            try await line.alone {
                guard state.withLock({ $0.unsaved != nil }) else { return }
                try await locked { if let grant = try await self.stored() { try await self.save(grant) } }
            }
        }
    }

    /// Returns the reason why a request had no token. If the store gave no answer, it is read again before the next
    /// request.
    func withoutToken() -> OAuthRefusal {
        let error = state.withLock { state in
            if state.storeError != nil { state.isRead = false }
            return state.storeError
        }
        return error.map { OAuthRefusal(store: $0) } ?? OAuthRefusal(.signInNeeded, "it requires you to sign in")
    }

    private func prepared(_ refused: Secret?) async throws -> Secret? {
        let mark = await changeMark()
        if state.withLock({ !$0.isRead || $0.mark != mark }) {
            do throws(CredentialStoreError) {
                keep(try await stored(), mark)
            } catch {
                // The server may not require a sign-in. The request is sent, and the reason is reported if the server
                // does require one.
                keep(nil, mark, because: error)
                return nil
            }
        }
        switch state.withLock(\.grant)?.nextStep(refused: refused, at: clock.now) ?? .nothing {
        case .use(let token): return token
        case .nothing: return nil
        case .signIn: throw Self.hasEnded
        case .renew:
            do {
                return try await renewed(refused)
            } catch let error as CredentialStoreError {
                throw OAuthRefusal(store: error)
            }
        }
    }

    /// Renews the tokens under the lock, unless another process has done so.
    ///
    /// - Throws: ``OAuthRefusal``, ``CredentialStoreError`` or `CancellationError`.
    private func renewed(_ refused: Secret?) async throws -> Secret? {
        try await locked {
            let grant = try await self.stored()
            self.keep(grant, await self.changeMark())
            guard var grant else { return nil }
            let refreshToken: Secret
            switch grant.nextStep(refused: refused, at: self.clock.now) {
            case .use(let token):
                if self.state.withLock({ $0.unsaved != nil }) { try? await self.save(grant) }
                return token
            case .signIn, .nothing: throw Self.hasEnded
            case .renew(let token): refreshToken = token
            }
            // A refresh token works only once, so the store must be able to keep the next one.
            try await self.store.prepareToSave(in: self.slot)
            let answer: IssuerResponse
            do {
                answer = try await self.send(grant.renewal(with: refreshToken))
            } catch let refusal as OAuthRefusal {
                // The server may still accept the token. If it does not, the reason is reported then.
                guard refused == nil else { throw refusal }
                return grant.accessToken
            }
            guard let json = answer.document else {
                guard answer.endsTheGrant else {
                    throw OAuthFlow.refusal(of: answer, "its sign-in can't be renewed now", without: grant.secrets)
                }
                try await self.store.delete(self.slot)
                self.keep(nil, self.store.notes.announceChange(of: self.slot))
                throw Self.hasEnded
            }
            let taken = Result { () throws(OAuthRefusal) in try grant.take(json, at: self.clock.now) }
            // Until the tokens are saved, this process has the only copy.
            self.state.withLock { $0.unsaved = (grant, refreshToken) }
            try await self.save(grant)
            try taken.get()
            return grant.accessToken
        }
    }

    private static let hasEnded = OAuthRefusal(.signInNeeded, "its sign-in has ended or was revoked")

    // MARK: The store

    /// Returns the stored sign-in at the server, or `nil` if there is none or it belongs to another client.
    func stored() async throws(CredentialStoreError) -> OAuthGrant? {
        guard let document = try await store.load(slot), let grant = try OAuthGrant(document, for: url),
            clientID == nil || clientID == grant.client.id
        else { return nil }
        let unsaved = state.withLock(\.unsaved)
        return unsaved?.usedUp == grant.refreshToken ? unsaved?.grant : grant
    }

    /// Returns the mark of the last change. If the disk does not answer, this method returns the known mark.
    private func changeMark() async -> [UInt8]? {
        let mark = try? await worker.perform(within: .seconds(1)) { [notes = store.notes, slot] _ in
            notes.changeMark(for: slot)
        }
        return mark ?? state.withLock(\.mark)
    }

    /// Saves the sign-in and announces the change to the other processes.
    private func save(_ grant: OAuthGrant) async throws(CredentialStoreError) {
        do throws(CredentialStoreError) {
            try await store.save(grant.document, in: slot)
        } catch {
            // The old refresh token is used up, so the save is repeated once for a store that was busy.
            try await store.save(grant.document, in: slot)
        }
        state.withLock { $0.unsaved = nil }
        keep(grant, store.notes.announceChange(of: slot))
    }

    private func keep(_ grant: OAuthGrant?, _ mark: [UInt8]?, because error: CredentialStoreError? = nil) {
        state.withLock { state in
            state.grant = grant
            state.isRead = true
            state.mark = mark
            state.storeError = error
        }
    }

    /// Runs `work` while no other process changes the sign-in.
    private func locked<Value>(_ work: () async throws -> Value) async throws -> Value {
        let hold = try await store.lock.acquire(slot, within: Self.lockPatience)
        defer { withExtendedLifetime(hold) {} }
        return try await work()
    }

    /// Returns the refusal as an error of this package.
    func error(_ refusal: OAuthRefusal) -> ChappieMCPError {
        ChappieMCPError(refusal.code, server: name, reason: refusal.reason)
    }

    /// Stores a new sign-in.
    ///
    /// - Returns: The sign-in that it replaces, or `nil` if there was none or it could not be read.
    /// - Throws: ``CredentialStoreError``.
    func adopt(_ grant: OAuthGrant) async throws -> OAuthGrant? {
        try await locked {
            let replaced = try? await self.stored()
            try await self.save(grant)
            return replaced
        }
    }

    /// Lets the next sign-in register this program again.
    ///
    /// - Throws: ``CredentialStoreError``.
    func forgetRegistration() async throws {
        try await locked {
            guard var grant = try await self.stored(), grant.redirectURI != nil else { return }
            grant.redirectURI = nil
            try await self.save(grant)
        }
    }

    /// Removes the stored sign-in.
    ///
    /// - Returns: the sign-in that was stored, or `nil` if there was none or it could not be read.
    /// - Throws: ``CredentialStoreError``.
    func remove() async throws -> OAuthGrant? {
        try await locked {
            let document = try? await self.store.loadForDeletion(self.slot)
            try await self.store.delete(self.slot)
            self.state.withLock { $0.unsaved = nil }
            self.keep(nil, self.store.notes.announceChange(of: self.slot))
            return document.flatMap { try? OAuthGrant($0, for: self.url) }
        }
    }

    /// Checks that a new sign-in could be stored.
    ///
    /// - Throws: ``CredentialStoreError``.
    func prepare() async throws(CredentialStoreError) { try await store.prepareToSave(in: slot) }

    // MARK: The network

    /// Sends a request of the sign-in and reads the complete answer.
    ///
    /// - Parameter isRepeatable: Whether the request may arrive twice. See ``IssuerClient/sendRepeatable(_:within:)``.
    /// - Throws: ``OAuthRefusal`` or `CancellationError`.
    func send(_ request: HTTPExchangeRequest, repeatable isRepeatable: Bool = false) async throws -> IssuerResponse {
        var request = request
        request.headerFields[.userAgent] = "chappie/\(ChappieVersion.current)"
        do {
            return isRepeatable
                ? try await issuer.sendRepeatable(request, within: Self.deadline)
                : try await issuer.send(request, within: Self.deadline)
        } catch let error as ChappieTransportError {
            throw OAuthRefusal("\(Origin(request.url)?.label ?? "") can't be used: \(error.reason)")
        }
    }
}

extension IssuerResponse {
    /// Whether the authorization server itself reports that the refresh token or the client is no longer valid.
    fileprivate var endsTheGrant: Bool {
        ["invalid_grant", "invalid_client", "unauthorized_client"].contains(object?["error"]?.string)
    }
}

extension OAuthRefusal {
    fileprivate init(store error: CredentialStoreError) {
        let words = OAuthRefusal(clause: error.errorDescription ?? "The store failed.").reason
        self.init("its sign-in can't be read or kept: \(words)")
    }
}
