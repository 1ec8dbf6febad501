@_spi(ChappieInternals) import ChappieAuth
import ChappieTesting
import FoundationEssentials
import HTTPTypes
import Testing

/// A service that echoes every secret it was given, and errors that show none of them.
@MainActor
@Suite struct SecrecyTests {
    private static let seed = person(endingIn: -10)
    private static let newcomer = person(endingIn: 7200, serial: 7)
    private static let secrets = [
        seed.accessToken, seed.idToken, "rt_seeded_1", newcomer.accessToken, newcomer.idToken, "rt_seeded_7",
        "ac_secret_1", "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk", "deviceauth_1",
    ]

    private static func echo(_ status: HTTPResponse.Status, _ code: String = "some_code") -> ScriptedHTTPAnswer {
        let all = secrets.joined(separator: " ")
        return .json(
            #"{"error":{"code":"\#(code)","message":"You sent \#(all) and that is wrong."},"error_description":"Bearer \#(all)"}"#,
            status: status)
    }

    private func expectNoSecret(in error: any Error) {
        var shown = "\(error) \(String(reflecting: error))"
        dump(error, to: &shown)
        if let error = error as? any LocalizedError {
            shown += [error.errorDescription, error.recoverySuggestion, error.failureReason].compactMap(\.self).joined()
        }
        for secret in Self.secrets { #expect(!shown.contains(secret), "\(error)") }
    }

    @Test(arguments: [400, 401, 403, 404, 409, 429, 500, 503])
    func noErrorOfARefreshShowsASecret(_ status: Int) async throws {
        let it = SessionHarness(
            Self.seed, [Service.token: [Self.echo(.init(code: status))], Service.backend: [.refused]])
        await expectSafe { try await it.stand.send() }
        await expectSafe { try await it.session.refreshAuth() }
        if let error = it.session.lastError { expectNoSecret(in: error) }
    }

    @Test(arguments: [400, 401, 409, 429, 500])
    func noErrorOfASignInShowsASecret(_ status: Int) async throws {
        for path in [Service.usercode, Service.poll, Service.token] {
            var answers = SessionHarness.signingIn(as: Self.newcomer)
            answers[path] = [Self.echo(.init(code: status), status == 400 ? "access_denied" : "x")]
            let it = SessionHarness(nil, answers)
            let updates = it.session.deviceLinkStateUpdates
            _ = try? await it.session.startDeviceCodeSignIn()
            let pump = Task {
                // A server that is down is asked again for a while.
                while !Task.isCancelled {
                    await it.stand.clock.waitForSleepers(count: 1)
                    it.stand.clock.advance(by: .seconds(61))
                }
            }
            defer { pump.cancel() }
            for state in await updates.all(until: { $0.isEnd }) {
                if case .failed(let error) = state { expectNoSecret(in: error) }
                #expect(!"\(state)".contains("deviceauth_1"))
            }
            #expect(it.session.deviceLinkState.name != "linked")
        }
    }

    @Test func aFinal401ShowsNoSecret() async throws {
        let it = SessionHarness(
            person(endingIn: 7200),
            [Service.token: [.tokens(Self.newcomer)], Service.backend: [Self.echo(.unauthorized)]])
        await expectSafe { try await it.stand.send() }
    }

    @Test func nothingThatIsHandedOutShowsASecret() async throws {
        let it = SessionHarness(person(endingIn: 7200), SessionHarness.signingIn(as: Self.newcomer))
        var shown = "\(it.stand.manager) \(it.stand.manager.authorization) \(it.session) \(it.session.state)"
        dump(it.session.accountInfo, to: &shown)
        dump(it.stand.store[it.stand.slot], to: &shown)
        dump(it.stand.manager, to: &shown)
        dump(it.session, to: &shown)
        for secret in Self.secrets + [person(endingIn: 7200).accessToken] { #expect(!shown.contains(secret)) }
    }

    private func expectSafe(_ body: () async throws -> Void) async {
        do {
            try await body()
            #expect(Bool(false), "it should have failed")
        } catch {
            expectNoSecret(in: error)
        }
    }
}
