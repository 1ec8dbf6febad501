@_spi(ChappieInternals) import ChappieCore
import ChappieSimulatorServer
import FoundationEssentials
import HTTPTypes
import Testing

@testable import ChappieSimulator

/// The plan route over sockets and in memory; `Pure` has the rest of it.
@Suite(.timeLimit(.minutes(3)))
struct PlanExchangeTests {
    private static let verifier = String(repeating: "v", count: 43)

    private static func page(_ issuer: String, redirect: String) -> String {
        let challenge = PlanFlow.challenge(of: verifier)
        let scope = PlanFlow.scopes.replacing(" ", with: "%20")
        let random = String(repeating: "r", count: 42)
        return "\(issuer)/api/accounts/authorize?client_id=dynamic_agent_client&agent_name_hint=My%20App"
            + "&ext_agent_host_id=\(PlanFlow.hostID)&response_type=code&redirect_uri=\(redirect)&scope=\(scope)"
            + "&resource=\(PlanFlow.resource)&state=s\(random)&nonce=n\(random)&code_challenge_method=S256"
            + "&code_challenge=\(challenge)"
    }

    private static func form(_ location: String?, redirect: String) -> (form: String, clientID: String) {
        let items = location.flatMap { URLComponents(string: $0) }?.queryItems ?? []
        func value(_ name: String) -> String { items.first { $0.name == name }?.value ?? "" }
        let form =
            "grant_type=authorization_code&client_id=\(value("client_id"))&code=\(value("code"))"
            + "&code_verifier=\(verifier)&redirect_uri=\(redirect)&resource=\(PlanFlow.resource)"
        return (form, value("client_id"))
    }

    @Test func aSignInAndATurnOverSockets() async throws {
        let lines = try await Simulator.logged(SimulatorConfiguration(autoApprove: true), named: "plan-bare") {
            simulator in
            #expect(simulator.planBackend.absoluteString == simulator.base + "/v1")
            let page = try Curl("GET", Self.page(simulator.base, redirect: PlanFlow.redirect))
            #expect(page.status == 302)
            let (form, clientID) = Self.form(page.headers["location"], redirect: PlanFlow.redirect)
            let tokens = try Curl("POST", "\(simulator.base)/api/accounts/oauth/token", form: form)
            #expect(tokens.status == 200)
            let keys = try Curl("GET", "\(simulator.base)/.well-known/jwks.json").json["keys"]?.array ?? []
            #expect(keys.count == 1)
            let bearer = "authorization: Bearer \(tokens.json["access_token"]?.string ?? "")"
            let turn = try Curl(
                "POST", "\(simulator.base)/v1/responses", headers: [bearer], json: PlanFlow.turn())
            #expect(turn.status == 200)
            #expect(turn.headers["content-type"] == nil)
            #expect(turn.events.text == "Hello.")
            let revocation =
                "token=\(tokens.json["refresh_token"]?.string ?? "")&token_type_hint=refresh_token&client_id=\(clientID)"
            #expect(try Curl("POST", "\(simulator.base)/api/accounts/oauth/revoke", form: revocation).status == 200)
        }
        #expect(lines.contains("GET /api/accounts/authorize 302"))
        #expect(lines.contains("POST /v1/responses 200 (scenario)"))
        #expect(!lines.contains { $0.contains("code") || $0.contains("?") })
    }

    @Test func theSameInMemory() async throws {
        let simulator = try InMemorySimulator(SimulatorConfiguration(autoApprove: true))
        #expect(simulator.planBackend.absoluteString == simulator.issuer.absoluteString + "/v1")
        func keyID() async throws -> ChappieJSON? {
            let url = simulator.issuer.appending(path: ".well-known/jwks.json")
            let response = try await simulator.transport.send(HTTPExchangeRequest(url: url))
            let bytes = try await response.body.reduce(into: [UInt8]()) { $0 += $1 }
            return try ChappieJSON(parsing: bytes)["keys"]?.array?.first?["kid"]
        }
        let before = try await keyID()
        simulator.rotateKeys()
        #expect(before != nil)
        #expect(try await keyID() != before)
    }
}
