@_spi(ChappieInternals) import ChappieAuth
import ChappieClient
import ChappieCore
import ChappieSimulatorServer
import ChappieTesting
import Foundation
import Testing

/// Every case of ``ChappieAuthError`` by an exchange with the simulator, caught as the documents catch it, with a sentence
/// that a user can act on.
@MainActor
@Suite(.timeLimit(.minutes(3))) struct AuthErrorTableTests {
    /// The cases. No switch over them has a default, so that a new case does not compile before it has a row.
    enum Name: String, CaseIterable {
        case expiredDeviceCode, cancelledSignIn, networkFailure, pollingTimeout, callbackTimeout, authorizationDenied
        case tokenExchangeFailed, reauthenticationRequired, missingRefreshToken, secureRandomFailed, invalidResponse
        case credentialStoreUnavailable, unknown, blockedByGateway, missingCredential, missingAccountID
        case wrongCallbackAddress, planUseNotGranted, renewableLater, callbackUnavailable, tooManyRequests

        init(_ error: ChappieAuthError) {
            self =
                switch error {
                case .expiredDeviceCode: .expiredDeviceCode
                case .cancelledSignIn: .cancelledSignIn
                case .networkFailure: .networkFailure
                case .pollingTimeout: .pollingTimeout
                case .callbackTimeout: .callbackTimeout
                case .authorizationDenied: .authorizationDenied
                case .tokenExchangeFailed: .tokenExchangeFailed
                case .reauthenticationRequired: .reauthenticationRequired
                case .missingRefreshToken: .missingRefreshToken
                case .secureRandomFailed: .secureRandomFailed
                case .invalidResponse: .invalidResponse
                case .credentialStoreUnavailable: .credentialStoreUnavailable
                case .unknown: .unknown
                case .blockedByGateway: .blockedByGateway
                case .missingCredential: .missingCredential
                case .missingAccountID: .missingAccountID
                case .wrongCallbackAddress: .wrongCallbackAddress
                case .planUseNotGranted: .planUseNotGranted
                case .renewableLater: .renewableLater
                case .callbackUnavailable: .callbackUnavailable
                case .tooManyRequests: .tooManyRequests
                }
        }
    }

    /// An exchange, and the error that it must end in.
    struct Row: Sendable, CustomTestStringConvertible {
        let name: Name
        /// What tells it from the other rows of its error.
        var note = ""
        /// A built-in one's name, or one in JSON.
        var scenario = String.scenario()
        var isSignedIn = false
        var work: Work = { _ = try await $0.tenants[0].session.signIn { _ in } }
        /// Whether the error holds what the exchange was about; the catch clauses see to the rest.
        var matches: @Sendable (ChappieAuthError) -> Bool = { _ in true }

        var testDescription: String { note.isEmpty ? name.rawValue : "\(name.rawValue), \(note)" }
    }

    typealias Work = @MainActor @Sendable (Loopback) async throws -> Void

    private nonisolated static let userCode = "/api/accounts/deviceauth/usercode"
    private nonisolated static let poll = "/api/accounts/deviceauth/token"
    private nonisolated static let token = "/oauth/token"
    /// The code ends after a second.
    private nonisolated static let endingSoon = String.rule(userCode, #""members":{"expires_in":1,"expires_at":null}"#)
    private nonisolated static let page =
        #""body":"<!DOCTYPE html><title>Network</title>","headers":{"content-type":"text/html"}"#
    private nonisolated static let refresh: Work = { try await $0.tenants[0].session.refreshAuth() }
    private nonisolated static let request: Work = {
        _ = try await $0.tenants[0].manager.authorization.authorized { _ in AuthorizedAttempt.value(1) }
    }
    private nonisolated static let keyringIsLocked = CredentialStoreError.locked("the login keyring is locked")

    /// The user approves at once.
    private nonisolated static func approving(_ rules: String...) -> String {
        .scenario(rules.joined(separator: ","), settings: #""autoApprove":true"#)
    }

    /// The token endpoint refuses, and repeats a token.
    private nonisolated static func refusing(_ status: Int, _ code: String) -> String {
        let message = "The code was refused: \(ErrorTableTests.leak)"
        return approving(
            .rule(token, #""status":\#(status),"body":{"error":"\#(code)","error_description":"\#(message)"}"#))
    }

    nonisolated static func rows(of name: Name) -> [Row] {
        switch name {
        case .missingCredential: [Row(name: name, work: request)]
        case .missingAccountID:
            [
                // The service has named the account, so that only the store can have lost it.
                Row(
                    name: name, isSignedIn: true,
                    work: { loopback in
                        try loopback.tenants[0].loseAccount()
                        await loopback.tenants[0].session.reload()
                        try await request(loopback)
                    })
            ]
        case .expiredDeviceCode:
            [
                Row(name: name, scenario: .scenario(endingSoon)),
                Row(
                    name: name, note: "after slow_down",
                    scenario: .scenario(endingSoon, .rule(poll, #""status":400,"body":{"error":"slow_down"}"#))),
            ]
        case .cancelledSignIn:
            [
                Row(
                    name: name,
                    work: { loopback in
                        let session = loopback.tenants[0].session
                        _ = try await session.signIn { _ in session.cancelSignIn() }
                    })
            ]
        case .networkFailure:
            [
                Row(name: name, scenario: approving(.rule(userCode, #""cut":{"beforeHead":true}"#))),
                Row(name: name, note: "a page with status 200", scenario: "device-start-html"),
                Row(name: name, note: "a network's page", scenario: approving(.rule(token, #""status":407,\#(page)"#))),
            ]
        case .blockedByGateway:
            [("no code", userCode), ("no tokens", token)].map { note, path in
                Row(
                    name: name, note: note, scenario: approving(.rule(path, #""status":403,\#(page)"#)),
                    matches: { if case .blockedByGateway(let host) = $0 { host.contains("127.0.0.1") } else { false } })
            }
        case .pollingTimeout:
            // A code without an end is polled for 15 minutes, which ChappieAuth's own tests let pass.
            [Row(name: name, work: { _ in throw ChappieAuthError.pollingTimeout })]
        case .callbackTimeout:
            // A browser has 15 minutes to come back, which ChappieAuth's own tests let pass.
            [Row(name: name, work: { _ in throw ChappieAuthError.callbackTimeout })]
        case .authorizationDenied:
            [
                Row(
                    name: name,
                    work: { loopback in
                        _ = try await loopback.tenants[0].session.signIn { code in
                            #expect(throws: Never.self) { try loopback.simulator.refuse(userCode: code.userCode) }
                        }
                    }),
                Row(
                    name: name, note: "in the service's words",
                    scenario: .scenario(
                        .rule(
                            poll,
                            #""status":400,"body":{"error":{"code":"access_denied","message":"Not on this plan"}}"#)),
                    matches: { $0 == .authorizationDenied("Not on this plan") }),
                Row(
                    name: name, note: "device sign-in is off", scenario: "device-off",
                    matches: { $0.errorDescription?.contains("Switch it on in ChatGPT") == true }),
            ]
        case .tokenExchangeFailed:
            [(400, "invalid_grant"), (401, "invalid_client"), (403, "access_denied"), (500, "server_error")].map {
                status, code in
                Row(
                    name: name, note: "\(status)", scenario: refusing(status, code),
                    matches: {
                        guard case .tokenExchangeFailed(status, let body) = $0 else { return false }
                        return body.contains(code) && $0.requiresReauthentication == (status < 402)
                    })
            } + [
                Row(
                    name: name, note: "a used refresh token", scenario: "refresh-reused", isSignedIn: true,
                    work: refresh,
                    matches: { $0.requiresReauthentication }),
                Row(
                    name: name, note: "a renewal that fails", scenario: "refresh-500", isSignedIn: true, work: refresh,
                    matches: { !$0.requiresReauthentication }),
                Row(
                    name: name, note: "no code to be had", scenario: "device-start-500",
                    matches: { if case .tokenExchangeFailed(500, _) = $0 { true } else { false } }),
            ]
        case .reauthenticationRequired:
            [
                Row(
                    name: name, isSignedIn: true,
                    work: { loopback in
                        // Another process signs another account in to the slot.
                        let tenant = loopback.tenants[0]
                        let other = ChappieAuthSession(credentials: tenant.newManager(loopback.locks))
                        _ = try await other.signIn { code in
                            #expect(throws: Never.self) {
                                try loopback.simulator.approve(
                                    userCode: code.userCode, as: loopback.tenants[1].account.id)
                            }
                        }
                        try await tenant.session.refreshAuth()
                    })
            ]
        case .missingRefreshToken:
            [
                Row(
                    name: name,
                    scenario: .scenario(.rule(token, "\"body\":\(withoutRefreshToken.tokenAnswer)")), isSignedIn: true,
                    work: refresh),
                Row(
                    name: name, note: "in the store", isSignedIn: true,
                    work: { loopback in
                        try loopback.tenants[0].loseRefreshToken()
                        try await loopback.tenants[0].session.refreshAuth()
                    }),
            ]
        case .callbackUnavailable:
            // Other programs hold both ports, which the loopback listener's own tests try.
            [Row(name: name, work: { _ in throw ChappieAuthError.callbackUnavailable("No port is free.") })]
        case .tooManyRequests:
            [
                Row(
                    name: name,
                    scenario: approving(
                        .rule(token, #""status":429,"headers":{"retry-after":"120"},"body":{"error":"slow_down"}"#)),
                    matches: { $0 == .tooManyRequests(retryAfter: .seconds(120)) })
            ]
        case .renewableLater:
            [
                Row(
                    name: name, scenario: .scenario(.rule(token, #""members":{"earliest_refresh_at":4102444800}"#)),
                    isSignedIn: true, work: refresh,
                    matches: { $0 == .renewableLater(Date(timeIntervalSince1970: 4_102_444_800)) })
            ]
        case .secureRandomFailed:
            // Random bytes are this machine's, and the port's adapter has always some; the device grant needs none.
            [
                Row(
                    name: name,
                    work: { _ in
                        let entropy: any Entropy = NoEntropy()
                        _ = try entropy.bytes(32)
                    })
            ]
        case .invalidResponse:
            [
                Row(name: name, note: "no JSON from the poll", scenario: approving(.rule(poll, #""body":"approved""#))),
                Row(
                    name: name, note: "no JSON from the token endpoint",
                    scenario: approving(.rule(token, #""body":"welcome""#))),
            ]
        case .credentialStoreUnavailable:
            // The store is on this machine, where no server can make it fail; it is the testing product's.
            [
                Row(
                    name: name, scenario: approving(),
                    work: { loopback in
                        loopback.tenants[0].store.fail(.save, with: keyringIsLocked)
                        _ = try await loopback.tenants[0].session.signIn { _ in }
                    }, matches: { $0 == .credentialStoreUnavailable(keyringIsLocked) })
            ]
        case .wrongCallbackAddress:
            [
                Row(
                    name: name,
                    work: {
                        try $0.tenants[0].session.completeSignIn(pasting: "http://127.0.0.1:1/auth/callback?code=c")
                    })
            ]
        case .planUseNotGranted:
            [
                Row(
                    name: name, scenario: .scenario(settings: #""autoApprove":true,"planUse":"never""#),
                    work: { loopback in
                        let manager = BrowserSignInTests.manager(
                            at: loopback.simulator, over: loopback.http, InMemoryRegistrationStore(), loopback.locks)
                        _ = try await ChappieAuthSession(credentials: manager).signIn { code in
                            _ = try await BrowserSignInTests.visit(code.verificationURL)
                        }
                        _ = try await manager.authorization.authorized { _ in AuthorizedAttempt.value(1) }
                    })
            ]
        case .unknown:
            // An app's own transport throws what no server can make ours throw.
            [
                Row(
                    name: name,
                    work: { loopback in
                        let tenant = loopback.tenants[0]
                        let manager = CredentialManager(
                            slot: tenant.configuration.credentialSlot,
                            store: LocalCredentialStore(tenant.store, lock: loopback.locks), transport: OddTransport(),
                            endpoints: tenant.configuration.endpoints)
                        _ = try await ChappieAuthSession(credentials: manager).signIn { _ in }
                    })
            ]
        }
    }

    private struct OddTransport: HTTPTransport {
        struct Oddity: Error {}
        func send(_ request: HTTPExchangeRequest) async throws -> HTTPExchangeResponse { throw Oddity() }
    }

    private struct NoEntropy: Entropy {
        func bytes(_ count: Int) throws -> [UInt8] { throw ChappieAuthError.secureRandomFailed(statusCode: 38) }
    }

    private nonisolated static let withoutRefreshToken: SeededAuth = {
        var seed = SeededAuth()
        seed.refreshToken = nil
        return seed
    }()

    @Test(arguments: Name.allCases.flatMap(rows))
    func `every error of the table can happen and describes what to do`(row: Row) async throws {
        try await Loopback.run(
            SimulatorScenario(ofARow: row.scenario), signedIn: row.isSignedIn ? 1 : 0
        ) { loopback in
            let session = loopback.tenants[0].session
            let secrets = loopback.secrets + [ErrorTableTests.leak]
            let stored = loopback.tenants[0].stored
            do {
                try await row.work(loopback)
                Issue.record("there was no error")
            } catch let error as ChappieAuthError {
                #expect(Self.caught { throw error } == row.name)
                #expect(Name(error) == row.name)
                #expect(row.matches(error), "\(error)")
                expectWords(of: error, without: secrets + loopback.secrets)
                switch row.name {
                // A request has failed, and nothing of the session's.
                case .missingCredential: return #expect(loopback.tenants[0].stored == stored)
                case .missingAccountID: return #expect(loopback.tenants[0].stored != nil)
                case .callbackTimeout, .callbackUnavailable, .pollingTimeout, .secureRandomFailed, .unknown,
                    .wrongCallbackAddress, .planUseNotGranted:
                    break
                case .cancelledSignIn: #expect(session.lastError == nil)
                default: #expect(session.lastError == error)
                }
                // A user who was signed in stays so, unless only a new sign-in helps.
                guard row.isSignedIn else { return #expect(stored == nil && loopback.tenants[0].stored == nil) }
                #expect((session.state == .reauthenticationRequired) == error.requiresReauthentication)
                if !error.requiresReauthentication { #expect(loopback.tenants[0].stored == stored) }
            }
        }
    }

    @Test(arguments: Name.allCases) func everyErrorHasARow(_ name: Name) {
        #expect(!Self.rows(of: name).isEmpty)
    }

    /// As the documents catch it: case by case, with what each holds.
    private static func caught(_ work: () throws -> Void) -> Name? {
        do {
            try work()
        } catch ChappieAuthError.expiredDeviceCode {
            return .expiredDeviceCode
        } catch ChappieAuthError.cancelledSignIn {
            return .cancelledSignIn
        } catch ChappieAuthError.networkFailure(let message) where message.contains("127.0.0.1") {
            return .networkFailure
        } catch ChappieAuthError.blockedByGateway(let host) where !host.isEmpty {
            return .blockedByGateway
        } catch ChappieAuthError.pollingTimeout {
            return .pollingTimeout
        } catch ChappieAuthError.callbackTimeout {
            return .callbackTimeout
        } catch ChappieAuthError.authorizationDenied(let message) where !message.isEmpty {
            return .authorizationDenied
        } catch ChappieAuthError.tokenExchangeFailed(statusCode: let status, body: let body)
            where status >= 400 && body.utf8.count <= 64 << 10
        {
            return .tokenExchangeFailed
        } catch ChappieAuthError.reauthenticationRequired(let message) where !message.isEmpty {
            return .reauthenticationRequired
        } catch ChappieAuthError.missingRefreshToken {
            return .missingRefreshToken
        } catch ChappieAuthError.secureRandomFailed(statusCode: let status) where status == 38 {
            return .secureRandomFailed
        } catch ChappieAuthError.invalidResponse {
            return .invalidResponse
        } catch ChappieAuthError.credentialStoreUnavailable(let error) where error.recoverySuggestion != nil {
            return .credentialStoreUnavailable
        } catch ChappieAuthError.unknown(let message) where !message.isEmpty {
            return .unknown
        } catch ChappieAuthError.missingCredential {
            return .missingCredential
        } catch ChappieAuthError.missingAccountID {
            return .missingAccountID
        } catch ChappieAuthError.wrongCallbackAddress(let message) where !message.isEmpty {
            return .wrongCallbackAddress
        } catch ChappieAuthError.planUseNotGranted {
            return .planUseNotGranted
        } catch ChappieAuthError.callbackUnavailable(let message) where !message.isEmpty {
            return .callbackUnavailable
        } catch ChappieAuthError.tooManyRequests(let pause) where pause > .zero {
            return .tooManyRequests
        } catch ChappieAuthError.renewableLater(let date) where date > Date() {
            return .renewableLater
        } catch {}
        return nil
    }
}
