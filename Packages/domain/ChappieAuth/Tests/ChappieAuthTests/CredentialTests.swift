@_spi(ChappieInternals) import ChappieCore
import FoundationEssentials
import Testing

@_spi(ChappieInternals) @testable import ChappieAuth

@Suite struct CredentialTests {
    private let now = Date(timeIntervalSince1970: 1_795_176_000)

    private func read(_ text: String) throws -> Credential { try Credential(serialized: Secret(text), for: .chatGPT) }

    @Test func aDocumentComesBackAsItWas() throws {
        let text =
            #"{"version":1,"grant":"device_code","issuer":"https://auth.openai.com","backend":"https://chatgpt.com","tokens":{"id_token":"i","access_token":"a","refresh_token":"r","account_id":"acc"},"last_refresh":"2026-11-20T12:00:00Z"}"#
        let credential = try read(text)
        #expect(credential.serialized().text == text)
        #expect(credential.lastRefresh == now)
        #expect(credential.accountID == "acc")
    }

    private func token(_ claims: String) -> String { "e30.\(Base64URL.encode(claims.utf8))." }

    private func exchanged(_ members: String) throws -> Credential {
        try Credential(
            exchanged: TokenResponse(IssuerResponse(status: 200, body: Array("{\(members)}".utf8))), grant: .deviceCode,
            at: now, from: .chatGPT)
    }

    @Test func `a sign-in without an identity token is read from the access token`() throws {
        let claims = #"{"email":"a@b.c","sub":"subject","https://api.openai.com/auth":{"chatgpt_plan_type":"plus"}}"#
        let credential = try exchanged(#""access_token":"\#(token(claims))","refresh_token":"r""#)
        #expect(credential.info == ChappieAccountInfo(email: "a@b.c", userID: "subject", plan: .plus))
        #expect(credential.accountID == nil && credential.hasClaims)
    }

    @Test(arguments: [#""refresh_token":"r""#, #""access_token":"opaque","refresh_token":"r""#])
    func `a sign-in that names nobody is refused at once`(_ members: String) {
        #expect(throws: ChappieAuthError.invalidResponse) { try exchanged(members) }
    }

    @Test func `a sign-in without a refresh token lasts as long as its access token`() throws {
        let end = Int(now.timeIntervalSince1970) + 600
        let credential = try exchanged(#""access_token":"\#(token(#"{"sub":"s","exp":\#(end)}"#))","expires_in":60"#)
        #expect(credential.expiresAt == now.addingTimeInterval(600))
        let stored = try read(credential.serialized().text)
        #expect(stored.freshness(at: now.addingTimeInterval(599)) == .fresh)
        #expect(!stored.isOver(at: now.addingTimeInterval(599)) && stored.isOver(at: now.addingTimeInterval(600)))
        #expect(stored.ending == .missingRefreshToken)
    }

    @Test func `the announced lifetime counts where the access token has no end`() throws {
        let identity = token(#"{"sub":"s"}"#)
        let credential = try exchanged(#""id_token":"\#(identity)","access_token":"opaque","expires_in":600"#)
        #expect(try read(credential.serialized().text).expiresAt == now.addingTimeInterval(600))
    }

    @Test(arguments: [("eu", "eu"), ("No_Constraint", nil), ("new-region", "new-region")] as [(String, String?)])
    func `a region that constrains nothing is none`(_ word: String, _ region: String?) throws {
        let access = token(#"{"sub":"s","chatgpt_compute_residency":"\#(word)"}"#)
        let identity = token(#"{"sub":"s","chatgpt_compute_residency":"us"}"#)
        let members = #""id_token":"\#(identity)","access_token":"\#(access)""#
        #expect(try exchanged(members).info.residency == region)
    }

    @Test(
        arguments: [
            (("a", "u"), ("a", "u"), true), (("a", "u"), ("a", "v"), false), (("a", "u"), ("b", "u"), false),
            (("a", nil), ("a", "u"), true), ((nil, "u"), (nil, "u"), true), ((nil, "u"), (nil, "v"), false),
            ((nil, "u"), ("a", "u"), true), ((nil, "u"), ("a", "v"), false), ((nil, nil), ("a", "u"), false),
            ((nil, nil), (nil, "u"), true),
        ] as [((String?, String?), (String?, String?), Bool)])
    func `the same account is the same user in the same workspace`(
        _ first: (String?, String?), _ second: (String?, String?), _ isSame: Bool
    ) {
        let one = ChappieAccountInfo(email: "a@b.c", userID: first.1, accountID: first.0)
        let other = ChappieAccountInfo(email: "a@b.c", userID: second.1, accountID: second.0)
        #expect(one.isSameAccount(as: other) == isSame && other.isSameAccount(as: one) == isSame)
        #expect(!ChappieAccountInfo(email: "a@b.c").isSameAccount(as: ChappieAccountInfo(email: "b@b.c")))
    }

    @Test func aRenewalLeavesTheTimeOfTheSignIn() throws {
        let answer = try TokenResponse(IssuerResponse(status: 200, body: Array(#"{"refresh_token":"r2"}"#.utf8)))
        let later = now.addingTimeInterval(60)
        let known = try read(#"{"version":1,"tokens":{"access_token":"a"},"last_refresh":"2026-11-20T12:00:00Z"}"#)
        let renewed = try read(known.refreshed(with: answer, at: later).serialized().text)
        #expect(renewed.beganAt == now && renewed.lastRefresh == later)
        #expect(try read(renewed.imported(at: later).serialized().text).beganAt == later)
    }

    @Test func aDocumentOfAnotherClientIsForeign() throws {
        let endpoints = ChappieEndpoints.chatGPT
        var other = endpoints
        other.registration.clientID = "app_of_its_own"
        #expect(other.credentialIssuer?.hasSuffix(" app_of_its_own") == true && endpoints.credentialIssuer == nil)
        let text = #"{"version":1,"client_id":"app_of_its_own","tokens":{"access_token":"a"}}"#
        let mine = try Credential(serialized: Secret(text), for: CredentialOrigin(other))
        #expect(mine.serialized().text.contains(#""client_id":"app_of_its_own""#))
        for (document, origin) in [
            (text, CredentialOrigin.chatGPT), (#"{"version":1,"tokens":{"access_token":"a"}}"#, mine.origin),
        ] {
            #expect {
                _ = try Credential(serialized: Secret(document), for: origin)
            } throws: { error in
                guard case .foreign? = error as? CredentialStoreError else { return false }
                return true
            }
        }
    }

    @Test func unknownMembersComeBackToo() throws {
        let text =
            #"{"later":1e400,"version":1,"tokens":{"x":null,"access_token":"a"},"later":[{}],"grant":"imported"}"#
        #expect(
            try read(text).serialized().text
                == #"{"version":1,"grant":"imported","issuer":"https://auth.openai.com","backend":"https://chatgpt.com","tokens":{"access_token":"a","x":null},"later":1e400,"later":[{}]}"#
        )
    }

    @Test func `only the access token is required, and everything else is optional`() throws {
        let credential = try read(
            #"{"version":1,"tokens":{"access_token":"a","id_token":7,"refresh_token":"two words","account_id":"a\nb"},"last_refresh":5}"#
        )
        #expect(credential.idToken == nil && credential.refreshToken == nil)
        #expect(credential.accountID == nil && credential.lastRefresh == nil)
    }

    @Test func aNewerDocumentIsNamedAsSuch() {
        #expect(throws: CredentialStoreError.tooNew("The stored sign-in", found: 2, known: 1)) {
            try read(#"{"version":2,"tokens":{"access_token":"a"}}"#)
        }
    }

    @Test func anEndlessDocumentIsRefused() {
        #expect(throws: CredentialStoreError.self) { try read(String(repeating: " ", count: (1 << 20) + 1)) }
    }

    @Test func `every truncation is corrupt, and the error shows nothing of it`() {
        let text = #"{"version":1,"tokens":{"access_token":"at_very_secret"}}"#
        for length in 0..<text.count {
            do {
                _ = try read(String(text.prefix(length)))
                #expect(Bool(false), "at \(length)")
            } catch {
                #expect(!"\(error)".contains("secret"))
            }
        }
    }

    @Test func nothingShowsTheTokens() throws {
        let credential = try read(#"{"version":1,"tokens":{"access_token":"at_very_secret"}}"#)
        var shown = "\(credential) \(String(reflecting: credential))"
        dump(credential, to: &shown)
        #expect(!shown.contains("secret"))
    }

    @Test(arguments: [
        (-1.0, Credential.Freshness.expired), (0, .expired), (0.5, .due), (300, .due), (300.5, .fresh), (1e6, .fresh),
    ])
    func freshnessFollowsTheEnd(_ seconds: Double, _ expected: Credential.Freshness) throws {
        let payload = #"{"exp":\#(now.timeIntervalSince1970 + seconds)}"#
        let claims = Data(payload.utf8).base64EncodedString().filter { $0 != "=" }
        let credential = try read(#"{"version":1,"tokens":{"access_token":"e30.\#(claims).","refresh_token":"r"}}"#)
        #expect(credential.freshness(at: now) == expected)
    }

    /// It is not due before the server wants that; but a token that has ended is of no use.
    @Test(arguments: [
        (200.0, 100.0, Credential.Freshness.fresh), (200, 0, .due), (200, -1, .due), (-1, 100, .expired),
        (200, 1e9, .fresh), (7200, -1, .fresh),
    ])
    func itIsNotDueBeforeTheServerWantsThat(
        _ end: Double, _ earliest: Double, _ expected: Credential.Freshness
    ) throws {
        let claims = Base64URL.encode(#"{"exp":\#(now.timeIntervalSince1970 + end)}"#.utf8)
        let moment = now.addingTimeInterval(earliest).ISO8601Format()
        let credential = try read(
            #"{"version":1,"tokens":{"access_token":"e30.\#(claims).","refresh_token":"r"},"earliest_refresh":"\#(moment)"}"#
        )
        #expect(credential.freshness(at: now) == expected)
        let opaque = try read(
            #"{"version":1,"tokens":{"access_token":"a","refresh_token":"r"},"earliest_refresh":"\#(moment)"}"#)
        #expect(opaque.freshness(at: now) == (earliest > 0 ? .fresh : .due))
        #expect(opaque.serialized().text.contains(#""earliest_refresh":"\#(moment)""#))
    }

    @Test(
        arguments: [
            (nil, Credential.Freshness.due), (0.0, .fresh), (8 * 86_400, .fresh), (8 * 86_400 + 1, .due),
            (-86_400, .fresh),
        ] as [(Double?, Credential.Freshness)])
    func withoutAnEndItFollowsTheAge(_ age: Double?, _ expected: Credential.Freshness) throws {
        let last = age.map { #","last_refresh":"\#(now.addingTimeInterval(-$0).ISO8601Format())""# } ?? ""
        let credential = try read(#"{"version":1,"tokens":{"access_token":"opaque","refresh_token":"r"}\#(last)}"#)
        #expect(credential.freshness(at: now) == expected)
    }
}

@Suite struct CredentialStoreErrorTests {
    private static let errors: [CredentialStoreError] = [
        .absent("a"), .locked("a"), .denied("a"), .timedOut(.seconds(1)), .corrupt("a"),
        .tooNew("A file", found: 2, known: 1), .notVerified,
        .busy(.seconds(1)), .overtaken, .wrongPassphrase("a"), .noPassphrase("a"), .unsafeFile("a", remedy: "b"),
        .unusableFolder("a", remedy: "b"), .foreign("a"), .noSharedFolder("a"), .sessionUnknown("a"), .failed("a"),
    ]

    @Test(arguments: errors)
    func everyErrorIsASentenceWithANextStep(_ error: CredentialStoreError) {
        #expect(error.errorDescription?.hasSuffix(".") == true && error.recoverySuggestion?.isEmpty == false)
    }

    @Test(arguments: errors)
    func onApplesPlatformsTheWordsFitTheKeychain(_ error: CredentialStoreError) {
        let words = [error.sentence(onApple: true), error.adviceOnApple ?? ""].joined()
        #expect(!words.contains("keyring"))
        #expect(!words.contains("desktop"))
        #expect(!words.contains("gnome"))
        switch error {
        case .absent, .locked, .denied:
            #expect(error.sentence(onApple: true).contains("keychain") && error.adviceOnApple != nil)
            #expect(error.errorDescription?.contains("keyring") == true)
        case .timedOut, .notVerified, .failed: #expect(error.adviceOnApple != nil)
        default: #expect(error.sentence(onApple: true) == error.errorDescription && error.adviceOnApple == nil)
        }
    }
}
