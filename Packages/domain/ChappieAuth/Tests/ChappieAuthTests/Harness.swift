import ChappieCore
import ChappieTesting
import FoundationEssentials
import HTTPTypes
import Synchronization

@_spi(ChappieInternals) @testable import ChappieAuth

/// One slot with everything around it in memory.
struct Harness: Sendable {
    let clock = ManualClock()
    let service: Service
    let store: InMemoryCredentialStore
    var slot: CredentialSlot { manager.slot }
    let manager: CredentialManager

    /// - Parameter seed: The user who is signed in; `nil` if no user is.
    init(
        _ seed: SeededAuth?, _ answers: [String: [ScriptedHTTPAnswer]] = [:], observer: (any ChappieObserver)? = nil
    ) {
        service = Service(answers)
        let slot = CredentialSlot(issuer: Service.endpoints.credentialIssuer)
        store = InMemoryCredentialStore(seed.map { [slot: $0.credential] } ?? [:])
        manager = CredentialManager(
            slot: slot, store: store, transport: service.transport, endpoints: Service.endpoints, clock: clock,
            observer: observer)
    }

    /// Another process: same store, nothing else in common but the service.
    func otherManager(
        _ lock: any CredentialLock & CredentialNotes = NoCredentialLock(), store: (any CredentialStore)? = nil,
        observer: (any ChappieObserver)? = nil
    ) -> CredentialManager {
        CredentialManager(
            slot: slot, store: LocalCredentialStore(store ?? self.store, lock: lock), transport: service.transport,
            endpoints: Service.endpoints, clock: clock, observer: observer)
    }

    /// Sends a request to the backend under the slot's sign-in.
    @discardableResult
    func send(_ request: HTTPExchangeRequest = Service.backendRequest) async throws -> Int {
        try await manager.authorization.ask(request, over: service.transport)
    }

    /// The access tokens that the backend has seen, in order.
    var bearers: [String] {
        service.requests(Service.backend).map { String(($0.headerFields[.authorization] ?? "").dropFirst(7)) }
    }

    var storedText: String? { store[slot].map { $0.withBytes { String(decoding: $0, as: UTF8.self) } } }
}

extension Authorization {
    /// Sends a request whose 401 is about the token, as the responses endpoint's is, and returns the status.
    func ask(_ request: HTTPExchangeRequest, over transport: any HTTPTransport) async throws -> Int {
        try check(request)
        return try await authorized { fields in
            var request = request
            for field in fields { request.headerFields[field.name] = field.value }
            let response = try await transport.send(request)
            return response.status.code == 401 ? .unauthorized(response) : .value(response.status.code)
        }
    }
}

/// The reference moment of ``ManualClock``.
let start = Date(timeIntervalSince1970: 1_795_176_000)

/// A user whose access token ends `seconds` after the start.
func person(endingIn seconds: TimeInterval?, serial: Int = 1) -> SeededAuth {
    var auth = SeededAuth(expiresAt: seconds.map { start.addingTimeInterval($0) })
    auth.serial = serial
    auth.endpoints = Service.endpoints
    auth.refreshToken = "rt_seeded_\(serial)"
    return auth
}

/// Another user, in another account.
var someoneElse: SeededAuth {
    var auth = person(endingIn: 7200, serial: 9)
    (auth.accountID, auth.userID, auth.email) = ("account-9", "user-9", "other@example.com")
    return auth
}

extension HTTPExchangeRequest {
    /// The body.
    var text: String { String(decoding: body?.bytes ?? [], as: UTF8.self) }
    /// The header fields in order.
    var fields: [String] { headerFields.map { "\($0.name.canonicalName): \($0.value)" } }
}

/// A session over a ``Harness``, and what it went through.
@MainActor
struct SessionHarness {
    let stand: Harness
    let notifier = RecordingDesktop()
    let session: ChappieAuthSession

    init(_ seed: SeededAuth? = nil, _ answers: [String: [ScriptedHTTPAnswer]] = [:]) {
        stand = Harness(seed, answers)
        session = ChappieAuthSession(credentials: stand.manager, notifier: notifier)
    }

    /// A service on which a sign-in succeeds after `pending` polls in vain.
    nonisolated static func signingIn(pending: Int = 0, as auth: SeededAuth) -> [String: [ScriptedHTTPAnswer]] {
        [
            Service.usercode: [.deviceCode],
            Service.poll: Array(repeating: .pending, count: pending) + [.approved],
            Service.token: [.tokens(auth)], Service.revoke: [.ok], Service.backend: [.ok],
        ]
    }

    /// Signs in, `meanwhile` does what the user and the clock do, and returns the state that ends it.
    @discardableResult
    func signIn(meanwhile: () async throws -> Void = {}) async throws -> ChappieDeviceLinkState? {
        let updates = session.deviceLinkStateUpdates
        try await session.startDeviceCodeSignIn()
        try await meanwhile()
        return await updates.next { $0.isEnd }
    }
}

extension ChappieDeviceLinkState {
    /// Whether it ends a sign-in.
    var isEnd: Bool { ["linked", "expired", "cancelled", "failed"].contains(name) }

    var name: String {
        switch self {
        case .idle: "idle"
        case .requestingCode: "requestingCode"
        case .awaitingUserCode: "awaitingUserCode"
        case .polling: "polling"
        case .linked: "linked"
        case .expired: "expired"
        case .cancelled: "cancelled"
        case .failed: "failed"
        }
    }
}

/// An issuer and a backend in memory: each path plays its list of answers, the last one forever.
final class Service: Sendable {
    static let usercode = "/api/accounts/deviceauth/usercode"
    static let poll = "/api/accounts/deviceauth/token"
    static let token = "/oauth/token"
    static let revoke = "/oauth/revoke"
    static let backend = "/backend-api/codex/models"

    static let endpoints = ChappieEndpoints(
        issuer: URL(string: "https://issuer.test")!, backend: URL(string: "https://backend.test/backend-api")!)
    static let backendRequest = HTTPExchangeRequest(url: URL(string: "https://backend.test/backend-api/codex/models")!)

    private struct State {
        var answers: [String: [ScriptedHTTPAnswer]] = [:]
        var requests: [HTTPExchangeRequest] = []
        var watchers: [(path: String, count: Int, continuation: CheckedContinuation<Void, Never>)] = []
    }

    private let state = Mutex(State())

    init(_ answers: [String: [ScriptedHTTPAnswer]] = [:]) { state.withLock { $0.answers = answers } }

    var transport: ScriptedHTTPTransport {
        ScriptedHTTPTransport { [weak self] request in self?.answer(request) ?? .response(status: .internalServerError)
        }
    }

    func play(_ path: String, _ answers: ScriptedHTTPAnswer...) { state.withLock { $0.answers[path] = answers } }

    func requests(_ path: String) -> [HTTPExchangeRequest] {
        state.withLock { $0.requests.filter { $0.url.path() == path } }
    }

    func count(_ path: String) -> Int { requests(path).count }

    /// Returns as soon as `path` has been asked `count` times.
    func waitForRequests(_ path: String, count: Int) async {
        await withCheckedContinuation { continuation in
            let isThere = state.withLock { state in
                if state.requests.count(where: { $0.url.path() == path }) >= count { return true }
                state.watchers.append((path, count, continuation))
                return false
            }
            if isThere { continuation.resume() }
        }
    }

    private func answer(_ request: HTTPExchangeRequest) -> ScriptedHTTPAnswer {
        let path = request.url.path()
        let (answer, watchers) = state.withLock { state in
            state.requests.append(request)
            let count = state.requests.count { $0.url.path() == path }
            let content = state.watchers.filter { $0.path == path && $0.count <= count }
            state.watchers.removeAll { $0.path == path && $0.count <= count }
            var answers = state.answers[path] ?? []
            let answer = answers.count > 1 ? answers.removeFirst() : answers.first
            state.answers[path] = answers
            return (answer, content)
        }
        for watcher in watchers { watcher.continuation.resume() }
        return answer ?? .response(status: .notFound)
    }
}

extension ScriptedHTTPAnswer {
    static func json(_ text: String, status: HTTPResponse.Status = .ok) -> ScriptedHTTPAnswer {
        .response(status: status, headerFields: [.contentType: "application/json"], body: text)
    }

    static func tokens(_ auth: SeededAuth) -> ScriptedHTTPAnswer { .json(auth.tokenAnswer) }

    static func error(_ status: HTTPResponse.Status, _ code: String, _ message: String = "No.") -> ScriptedHTTPAnswer {
        .json(#"{"error":{"code":"\#(code)","message":"\#(message)"}}"#, status: status)
    }

    static func page(_ status: HTTPResponse.Status) -> ScriptedHTTPAnswer {
        .response(status: status, headerFields: [.contentType: "text/html"], body: "<html><body>Portal</body></html>")
    }

    /// Waits for the gate before the head.
    func after(_ gate: ScriptedGate) -> ScriptedHTTPAnswer {
        var answer = self
        answer.beforeHead = [.wait(until: gate)]
        return answer
    }

    static let ok = ScriptedHTTPAnswer.json("{}")
    static let refused = ScriptedHTTPAnswer.json(
        #"{"error":{"message":"Provided authentication token is expired.","code":"token_expired"},"status":401}"#,
        status: .unauthorized)
    static let lost = ScriptedHTTPAnswer.failure(
        ChappieTransportError(
            .connectionLost, stage: .responseHead, host: "issuer.test", reason: "the connection closed"))
    /// An interval of zero: the first poll is sent at once.
    static let deviceCode = ScriptedHTTPAnswer.json(
        #"{"device_auth_id":"deviceauth_1","user_code":"ABCD-12345","interval":"0"}"#)
    static let pending = ScriptedHTTPAnswer.error(.forbidden, "deviceauth_authorization_pending")
    static let approved = ScriptedHTTPAnswer.json(
        #"{"status":"success","authorization_code":"ac_secret_1","code_challenge":"c","code_verifier":"dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"}"#
    )
}

extension AsyncStream where Element: Sendable {
    /// Every element up to the first for which `isLast` is true.
    func all(until isLast: @Sendable (Element) -> Bool) async -> [Element] {
        var seen: [Element] = []
        for await element in self {
            seen.append(element)
            if isLast(element) { break }
        }
        return seen
    }

    /// The first element that `isWanted`; waits for it.
    func next(where isWanted: @Sendable (Element) -> Bool) async -> Element? {
        for await element in self where isWanted(element) { return element }
        return nil
    }
}
