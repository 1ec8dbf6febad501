@_spi(ChappieInternals) import ChappieCore
import ChappieTesting
import FoundationEssentials
import TestFixtures
import Testing

@_spi(ChappieInternals) @testable import ChappieAuth

/// The sign-in service adds members, takes some away, and empties lists: nothing of that traps, and what is still said
/// is understood.
@Suite struct GrownAnswerTests {
    /// An answer, how it is read (`nil` for an error of the service's own), and the members that it can't do without.
    struct Answer: Sendable, CustomTestStringConvertible {
        let name: String
        let body: ChappieJSON
        var needs: Set<String> = []
        let read: @Sendable (ChappieJSON) throws(ChappieAuthError) -> String
        var testDescription: String { name }
    }

    private static func answer(_ status: Int, _ json: ChappieJSON) -> IssuerResponse {
        IssuerResponse(status: status, body: json.serializedBytes())
    }

    private static func authorization(_ json: ChappieJSON) throws(ChappieAuthError) -> DeviceAuthorization {
        try DeviceAuthorization(Service.endpoints, answer(200, json), now: start, elapsed: .zero)
    }

    private static let code: ChappieJSON = [
        "device_auth_id": "d1", "user_code": "AB-1", "interval": "5", "expires_at": "2026-11-20T12:10:00Z",
    ]

    private static let seed = person(endingIn: 864_000)

    private static let tokens: ChappieJSON = [
        "id_token": .string(seed.idToken), "access_token": .string(seed.accessToken), "refresh_token": "rt.1.x",
        "expires_in": 864_000, "earliest_refresh_at": 1_795_800_000, "scope": "openid", "token_type": "bearer",
    ]

    static let answers: [Answer] = [
        Answer(name: "a device code", body: code, needs: ["device_auth_id", "user_code"]) {
            json throws(ChappieAuthError) in try authorization(json).code.userCode
        },
        Answer(
            name: "an approval",
            body: ["authorization_code": "ac", "code_verifier": "v", "code_challenge": "c", "status": "success"],
            needs: ["authorization_code", "code_verifier"]
        ) { json throws(ChappieAuthError) in
            var polling = try authorization(code)
            switch polling.receivedAnswer(answer(200, json), elapsed: .zero) {
            case .approved(let code): return "\(code.code.text) \(code.verifier.text)"
            case .wait: return "pending"
            case .failed(let error): throw error
            }
        },
        Answer(
            name: "not yet",
            body: ["error": ["code": "deviceauth_authorization_pending", "message": "m", "param": nil]]
        ) { json throws(ChappieAuthError) in
            var polling = try authorization(code)
            guard case .wait = polling.receivedAnswer(answer(403, json), elapsed: .zero) else { return "over" }
            return "pending"
        },
        // For a sign-in that can be renewed.
        Answer(name: "tokens", body: tokens, needs: ["access_token", "refresh_token"]) {
            json throws(ChappieAuthError) in
            let credential = try Credential(
                exchanged: TokenResponse(answer(200, json)), grant: .deviceCode, at: start, from: .chatGPT)
            guard let refreshToken = credential.refreshToken else { throw .missingRefreshToken }
            return refreshToken.text
        },
        Answer(name: "renewed tokens", body: tokens) { json throws(ChappieAuthError) in
            guard let old = try? Credential(serialized: seed.credential, for: CredentialOrigin(Service.endpoints))
            else {
                throw .unknown("the seed is a credential")
            }
            return "\(old.refreshed(with: try TokenResponse(answer(200, json)), at: start).freshness(at: start))"
        },
    ]

    @Test(arguments: answers) func `every answer that still contains what is needed is read`(answer: Answer) throws {
        let expected = try answer.read(answer.body)
        let grown = GrownAnswer.all(of: answer.body)
        #expect(grown.count > answer.body.object?.members.count ?? 0)
        for variant in grown {
            let isNeeded = variant.change != .memberAdded && variant.path.first.map(answer.needs.contains) == true
            do throws(ChappieAuthError) {
                let said = try answer.read(variant.json)
                #expect(said == expected && !isNeeded, "\(variant): \(said)")
            } catch {
                #expect(isNeeded && [.invalidResponse, .missingRefreshToken].contains(error), "\(variant): \(error)")
            }
        }
    }

    /// The old refresh token is used up by then.
    @Test func aMemberInANewFormCostsNoNewRefreshToken() throws {
        let old = try Credential(serialized: Self.seed.credential, for: CredentialOrigin(Service.endpoints))
        for name in ["id_token", "access_token", "earliest_refresh_at", "expires_in"] {
            for value in [7, ["value": "x"], "two words"] as [ChappieJSON] {
                var object = try #require(Self.tokens.object)
                object[name] = value
                let new = old.refreshed(with: try TokenResponse(Self.answer(200, .object(object))), at: start)
                #expect(new.refreshToken?.text == "rt.1.x", "\(name): \(value)")
                #expect(new.accessToken == old.accessToken && new.idToken == old.idToken)
            }
        }
    }

    /// Only the token endpoint's own word about the token ends a sign-in, whatever else is in the answer.
    @Test(
        arguments: [
            ["error": "invalid_grant", "error_description": "Gone.", "scopes": ["a"]],
            ["error": ["code": "refresh_token_reused", "type": "t", "message": "Used.", "param": nil, "more": [[]]]],
            ["error": ["code": "server_error", "message": "Later."]], ["detail": "No."],
            ["detail": [["loc": ["body"]]]],
        ] as [ChappieJSON])
    func anErrorSaysNothingThatItDidNotSay(body: ChappieJSON) {
        let isFinal = Self.answer(400, body).authError(host: "h").requiresReauthentication
        for variant in GrownAnswer.all(of: body) {
            let error = Self.answer(400, variant.json).authError(host: "h")
            guard case .tokenExchangeFailed(400, _) = error else {
                Issue.record("\(variant): \(error)")
                continue
            }
            #expect(!error.requiresReauthentication || isFinal, "\(variant)")
            #expect(variant.change != .memberAdded || error.requiresReauthentication == isFinal, "\(variant)")
            #expect(error.errorDescription?.isEmpty == false)
        }
    }
}
