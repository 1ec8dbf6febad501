@_spi(ChappieInternals) import ChappieAuth
import ChappieCore
import ChappieTesting
import FoundationEssentials
import HTTPTypes

/// One slot with everything around it in memory.
struct Stand: Sendable {
    let clock = ManualClock()
    let service: Service
    let store: InMemoryCredentialStore
    let slot = CredentialSlot()
    let manager: CredentialManager

    /// - Parameter seed: who is signed in; `nil` for nobody.
    init(_ seed: SeededAuth?, _ answers: [String: [ScriptedHTTPAnswer]] = [:]) {
        service = Service(answers)
        store = InMemoryCredentialStore(seed.map { [CredentialSlot(): $0.credential] } ?? [:])
        manager = CredentialManager(
            slot: slot, store: store, transport: service.transport, endpoints: Service.endpoints, clock: clock)
    }

    /// Another process: same store, nothing else in common but the service.
    func otherManager() -> CredentialManager {
        CredentialManager(
            slot: slot, store: store, transport: service.transport, endpoints: Service.endpoints, clock: clock)
    }

    /// Sends a request to the backend under the slot's sign-in.
    @discardableResult
    func send(_ request: HTTPExchangeRequest = Service.backendRequest) async throws -> Int {
        let transport = MiddlewareTransport(service.transport, middleware: [manager.authorization])
        return try await transport.send(request).status.code
    }

    /// The access tokens that the backend has seen, in order.
    var bearers: [String] {
        service.requests(Service.backend).map { String(($0.headerFields[.authorization] ?? "").dropFirst(7)) }
    }

    var storedText: String? { store[slot].map { $0.withBytes { String(decoding: $0, as: UTF8.self) } } }
}

/// The reference moment of ``ManualClock``.
let start = Date(timeIntervalSince1970: 1_795_176_000)

/// A person whose access token ends `seconds` after the start.
func person(endingIn seconds: TimeInterval?, serial: Int = 1) -> SeededAuth {
    var auth = SeededAuth(expiresAt: seconds.map { start.addingTimeInterval($0) })
    auth.serial = serial
    auth.refreshToken = "rt_seeded_\(serial)"
    return auth
}
