import ChappieAuth
import ChappieCore
import ChappieCrypto
import ChappieCurl
import ChappieFiles
import ChappieHTTP
import ChappieLoopback
import ChappieSimulatorServer
import ChappieTesting
import Foundation
import TestFixtures
import Testing

/// "Continue with ChatGPT" over the adapters that programs have: real sockets, a file of registrations, and libcrypto's
/// check of the simulator's identity tokens.
@Suite struct BrowserSignInTests {
    private struct App: Sendable {
        let simulator: Simulator
        let registrations: FileRegistrationStore
        let manager: CredentialManager
        let session: ChappieAuthSession

        static func run(_ body: (App) async throws -> Void) async throws {
            let folder = try TemporaryDirectory()
            let simulator = try await Simulator.start(
                SimulatorConfiguration(autoApprove: true, account: Loopback.accounts[0]))
            let http = CurlHTTPTransport(network: CurlNetwork(policy: ChappieNetworkPolicy(proxy: .none)))
            let registrations = FileRegistrationStore(directory: folder.path("registrations"))
            let manager = BrowserSignInTests.manager(
                at: simulator, over: http, registrations, FileCredentialLock(directory: folder.path("locks")))
            let app = App(
                simulator: simulator, registrations: registrations, manager: manager,
                session: await ChappieAuthSession(credentials: manager))
            do {
                try await body(app)
            } catch {
                http.shutdown()
                await simulator.stop()
                throw error
            }
            http.shutdown()
            await simulator.stop()
        }

        /// The parameters of each page of approval that a browser has asked for.
        var authorizations: [[String: String]] {
            simulator.receivedRequests.map(\.target).filter { $0.hasPrefix("/api/accounts/authorize?") }.map(parameters)
        }
    }

    /// A manager as programs make it, of a slot in memory.
    static func manager(
        at simulator: Simulator, over http: CurlHTTPTransport, _ registrations: any RegistrationStore,
        _ lock: any CredentialLock & CredentialNotes
    ) -> CredentialManager {
        CredentialManager(
            slot: CredentialSlot(), store: InMemoryCredentialStore(lock: lock), transport: http,
            endpoints: .simulator(port: simulator.issuer.port ?? 0, grant: .continueWithChatGPT(appName: "Notes")),
            browserSignIn: BrowserSignInPorts(
                listener: LoopbackCallbackListener(), registrations: registrations,
                cryptography: SystemSignInCryptography()))
    }

    private static func parameters(_ address: String) -> [String: String] {
        let items = URLComponents(string: address)?.queryItems ?? []
        return Dictionary(items.map { ($0.name, $0.value ?? "") }) { _, last in last }
    }

    /// What a program on this machine gets for a request.
    private static func send(_ request: String, to port: Int) async throws -> String {
        try await onOwnThread {
            let connection = try LoopbackConnection(port: port)
            connection.send(request)
            return try connection.rest()
        }
    }

    /// Leads a browser from the page of approval to its last page: the addresses on the way, and that page.
    static func visit(_ page: URL) async throws -> (addresses: [String], page: String) {
        var next: URL? = page
        var addresses: [String] = []
        var answer = ""
        while let address = next?.absoluteString, addresses.count < 5 {
            addresses.append(address)
            let parts = try #require(address.wholeMatch(of: /http:\/\/(127\.0\.0\.1:([0-9]+))(\/.*)/))
            answer = try await send(
                "GET \(parts.3) HTTP/1.1\r\nHost: \(parts.1)\r\nConnection: close\r\n\r\n", to: Int(parts.2) ?? 0)
            let location = answer.firstMatch(of: /\r\n[Ll]ocation: ([^\r]*)\r\n/)?.1
            next = location.flatMap { URL(string: String($0), relativeTo: URL(string: address))?.absoluteURL }
        }
        return (addresses, answer)
    }

    @Test func `a browser that is redirected signs in, and the app is the same next time`() async throws {
        try await App.run { app in
            var seen: [String] = []
            let account = try await app.session.signIn { code in
                let visit = try await Self.visit(code.verificationURL)
                seen = visit.addresses
                #expect(visit.page.hasPrefix("HTTP/1.1 200 "))
            }
            #expect(account.email == Loopback.accounts[0].email)
            // The page that stays in the browser's history has no code in its address.
            #expect(seen.count == 3)
            #expect(seen.last?.hasSuffix("/auth/done") == true)
            let registration = try #require(await app.registrations.registration(for: app.manager.slot))
            #expect(registration.clientID.hasPrefix("oaiapp_"))
            // The keys of the service may change at any time.
            app.simulator.rotateKeys()
            try await app.session.signIn { code in _ = try await Self.visit(code.verificationURL) }
            #expect(try await app.registrations.registration(for: app.manager.slot)?.clientID == registration.clientID)
            let asked = app.authorizations
            #expect(asked.map { $0["client_id"] } == ["dynamic_agent_client", registration.clientID])
            let hostID = try await app.registrations.hostID()
            #expect(asked.map { $0["ext_agent_host_id"] } == [hostID, hostID])
            #expect(asked.map { $0["agent_name_hint"] } == ["Notes", nil])
            #expect(asked[0]["state"] != asked[1]["state"])
        }
    }

    @Test func `neither pages nor programs that know the port disturb a sign-in`() async throws {
        try await App.run { app in
            var port = 0
            try await app.session.signIn { code in
                let parameters = Self.parameters(code.verificationURL.absoluteString)
                port = try #require(parameters["redirect_uri"].flatMap { URL(string: $0)?.port })
                let state = try #require(parameters["state"])
                let host = "127.0.0.1:\(port)"
                for (request, status) in [
                    ("GET /auth/callback?code=x&state=wrong HTTP/1.1\r\nHost: \(host)\r\n\r\n", "400"),
                    ("GET /auth/callback?code=x HTTP/1.1\r\nHost: \(host)\r\n\r\n", "400"),
                    // A page whose name leads to this machine (DNS rebinding), and other names of it.
                    (
                        "GET /auth/callback?code=x&state=\(state) HTTP/1.1\r\nHost: rebound.example:\(port)\r\n\r\n",
                        "400"
                    ),
                    ("GET /auth/callback?code=x&state=\(state) HTTP/1.1\r\nHost: localhost:\(port)\r\n\r\n", "400"),
                    ("GET /auth/callback?code=x&state=\(state) HTTP/1.1\r\n\r\n", "400"),
                    ("POST /auth/callback?code=x&state=\(state) HTTP/1.1\r\nHost: \(host)\r\n\r\ncode=x", "405"),
                    ("GET /favicon.ico HTTP/1.1\r\nHost: \(host)\r\n\r\n", "404"),
                    ("GET /auth/done HTTP/1.1\r\nHost: \(host)\r\n\r\n", "404"),
                    ("\u{16}\u{3}\u{1} TLS\r\n\r\n", "400"),
                    ("GET / HTTP/1.1\r\nCookie: \(String(repeating: "c", count: 20_000))\r\n\r\n", "431"),
                ] {
                    let answer = try await Self.send(request, to: port)
                    #expect(answer.hasPrefix("HTTP/1.1 \(status) "), "\(request.prefix(60))")
                    #expect(!answer.contains(state))
                }
                let target = port
                let spare = try await onOwnThread {
                    let connections = try (0..<20).map { _ in try LoopbackConnection(port: target) }
                    connections[19].send("GET /auth/callback?")
                    return connections
                }
                let visit = try await Self.visit(code.verificationURL)
                #expect(visit.page.hasPrefix("HTTP/1.1 200 "))
                withExtendedLifetime(spare) {}
            }
            #expect(await app.session.state.isSignedIn)
            let closed = port
            #expect(try await eventually { (try? LoopbackConnection(port: closed)) == nil })
        }
    }

    @Test func aSignInThatIsCancelledFreesThePort() async throws {
        try await App.run { app in
            let code = try await app.session.startDeviceCodeSignIn()
            let address = Self.parameters(code.verificationURL.absoluteString)["redirect_uri"]
            let port = try #require(address.flatMap { URL(string: $0)?.port })
            _ = try LoopbackConnection(port: port)
            await app.session.cancelSignIn()
            #expect(try await eventually { (try? LoopbackConnection(port: port)) == nil })
            #expect(await !app.session.state.isSignedIn)
        }
    }
}
