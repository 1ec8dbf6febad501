@_spi(ChappieInternals) import ChappieCore
import ChappieTesting
import FoundationEssentials
import HTTPTypes
import Testing

@_spi(ChappieInternals) @testable import ChappieAuth

/// The life of a credential as tables: an input, and what is to be done about it. Nothing waits.
@Suite struct CredentialLifecycleTests {
    typealias Input = CredentialLifecycle.Input

    /// The life of a credential, input by input.
    struct Trace {
        var lifecycle = CredentialLifecycle()
        var elapsed = Duration.zero

        mutating func on(_ input: Input, _ expected: String..., at location: SourceLocation = #_sourceLocation) {
            #expect(actions(input) == expected, sourceLocation: location)
        }

        mutating func actions(_ input: Input) -> [String] {
            let moment = CredentialLifecycle.Timestamp(
                now: start.addingTimeInterval(elapsed.inSeconds), elapsed: elapsed)
            // The report to an observer changes nothing, and is tested with the observer.
            return lifecycle.handle(input, at: moment).map(\.words).filter { $0 != "taken over" }
        }

        /// Signed in with the first credential, which ends after `seconds`.
        static func signedIn(endingIn seconds: TimeInterval = 7200) -> Trace {
            var trace = Trace()
            trace.on(.asked(.account, 100), "read")
            trace.on(.storeRead(stored(1, endingIn: seconds)), "answer 100 rt_1")
            return trace
        }

        /// Job 2 has read the store for a renewal that waiter 1 needs.
        static func reading(_ need: CredentialLifecycle.Need = .token, endingIn seconds: TimeInterval = -1) -> Trace {
            var trace = signedIn(endingIn: seconds)
            trace.on(.asked(need, 1), "lock 2")
            trace.on(.lockAnswered(2, nil), "read")
            return trace
        }

        /// Job 2 has asked the store whether it can save.
        static func preparing() -> Trace {
            var trace = reading()
            trace.on(.storeRead(stored(1, endingIn: -1)), "prepare")
            return trace
        }

        /// Job 2 has asked the server with the first refresh token, for waiter 1.
        static func asking() -> Trace {
            var trace = preparing()
            trace.on(.storePrepared(nil), "refresh 2 rt_1")
            return trace
        }
    }

    private let deadToken = ChappieAuthError.tokenExchangeFailed(statusCode: 400, body: #"{"error":"invalid_grant"}"#)
    private var dead: Input { .tokensRefreshed(2, .failure(deadToken)) }
    private let locked = CredentialStoreError.locked("l")
    private let nothing = Input.storeRead(.success(.init()))

    // MARK: Loading

    @Test func allWhoAskShareOneRead() {
        var trace = Trace()
        trace.on(.asked(.account, 1), "read")
        trace.on(.asked(.token, 2))
        trace.on(.storeRead(stored(1)), "answer 1 rt_1", "answer 2 rt_1")
        trace.on(.asked(.token, 3), "answer 3 rt_1")
        #expect(trace.lifecycle.snapshot.status == .signedIn(credential(1).info, expiresAt: credential(1).expiresAt))
    }

    @Test func `a slot that is empty or unreadable is read again for the next caller`() {
        var trace = Trace()
        trace.on(.asked(.account, 1), "read")
        trace.on(nothing, "answer 1 missing")
        #expect(trace.lifecycle.snapshot.status == .signedOut)
        trace.on(.asked(.account, 2), "read")
        trace.on(.storeRead(.failure(locked)), "answer 2 store")
        #expect(trace.lifecycle.snapshot.status == .unavailable(locked))
        trace.on(.asked(.account, 3), "read")
        trace.on(.storeRead(stored(1)), "answer 3 rt_1")
    }

    @Test func `a refresh without a sign-in is rejected and has no later effect`() {
        var trace = Trace()
        trace.on(.asked(.refresh, 1), "read")
        trace.on(nothing, "answer 1 rejected")
        #expect(trace.lifecycle.snapshot.status == .reauthenticationRequired(.missingRefreshToken))
        trace.on(.asked(.token, 2), "read")
        trace.on(nothing, "answer 2 missing")
        #expect(trace.lifecycle.snapshot.status == .signedOut)
    }

    // MARK: Renewal

    @Test func newTokensAreSavedBeforeTheyAreUsed() {
        var trace = Trace.asking()
        trace.on(.asked(.token, 3))
        trace.on(.tokensRefreshed(2, tokens(2)), "save rt_2")
        trace.on(.asked(.token, 4))
        trace.on(.storeChanged(nil), "answer 1 rt_2 new", "answer 3 rt_2 new", "answer 4 rt_2 new", "unlock 2")
    }

    /// Another process has changed the slot before the lock was free.
    @Test(arguments: [
        (2, 7200.0, ["answer 1 rt_2", "unlock 2"]), (2, 200, ["prepare", "refresh 2 rt_2"]),
        (1, -1, ["prepare", "refresh 2 rt_1"]),
    ])
    func tokensThatAnotherProcessRenewedSpareTheServer(_ serial: Int, _ end: TimeInterval, _ expected: [String]) {
        var trace = Trace.reading()
        var actions = trace.actions(.storeRead(stored(serial, endingIn: end)))
        if actions == ["prepare"] { actions += trace.actions(.storePrepared(nil)) }
        #expect(actions == expected)
    }

    @Test func `a store that cannot save is detected before the refresh token is used up`() {
        var trace = Trace.preparing()
        trace.on(.asked(.token, 3))
        trace.on(.storePrepared(.failed("full")), "answer 1 store", "answer 3 store", "unlock 2")
        // It is asked again for the next request.
        trace.on(.asked(.token, 4), "lock 3")
        trace.on(.lockAnswered(3, nil), "read")
        trace.on(.storeRead(stored(1, endingIn: -1)), "prepare")
        trace.on(.storePrepared(nil), "refresh 3 rt_1")
    }

    @Test func `a sign-out wins while the store is asked whether it can save`() {
        var trace = Trace.preparing()
        trace.on(.signedOut(revoking: true, 9))
        trace.on(.settlingAsked(8))
        trace.on(.storePrepared(nil), "answer 1 missing", "read")
        trace.on(.storeRead(stored(1, endingIn: -1)), "delete")
        trace.on(.storeChanged(nil), "forget tombstone", "signed out 9 [rt_1]", "unlock 2")
    }

    @Test(arguments: [("account-2", "user-1"), ("account-1", "user-2")])
    func `another account in the slot is a permanent mismatch`(_ account: String, _ user: String) {
        let other = CredentialLifecycle.Stored(credential: credential(9, account: account, user: user))
        var trace = Trace.reading()
        trace.on(.storeRead(.success(other)), "answer 1 rejected", "unlock 2")
        trace.on(.asked(.token, 2), "answer 2 rejected")
        guard case .reauthenticationRequired(.reauthenticationRequired(let reason)) = trace.lifecycle.snapshot.status
        else { return #expect(Bool(false)) }
        #expect(reason.contains("another account"))
    }

    @Test func `a slot that another process emptied is signed out`() {
        var trace = Trace.reading()
        trace.on(nothing, "answer 1 missing", "unlock 2")
        trace.on(.asked(.token, 2), "read")
        trace.on(.storeRead(stored(2)), "answer 2 rt_2")
    }

    @Test func `an early renewal that fails temporarily leaves the old token in use`() {
        let soft = ChappieAuthError.networkFailure("n")
        for path in [
            [Input.lockAnswered(2, .busy(.seconds(45)))], [.lockAnswered(2, nil), .storeRead(.failure(locked))],
            [.lockAnswered(2, nil), .storeRead(stored(1, endingIn: 200)), .storePrepared(.failed("full"))],
            [
                .lockAnswered(2, nil), .storeRead(stored(1, endingIn: 200)), .storePrepared(nil),
                .tokensRefreshed(2, .failure(soft)),
            ],
        ] {
            var trace = Trace.signedIn(endingIn: 200)
            trace.on(.asked(.token, 1), "patience 1", "lock 2")
            #expect(path.flatMap { trace.actions($0) }.contains("answer 1 rt_1"))
            trace.on(.asked(.token, 2), "answer 2 rt_1")
            trace.elapsed = .seconds(31)
            trace.on(.asked(.token, 3), "patience 3", "lock 3")
            trace.on(.patienceEnded(3), "answer 3 rt_1")
            trace.on(.patienceEnded(3))
        }
    }

    /// The server has named the moment before which it wants no renewal that the client can do without.
    @Test(arguments: [
        ("1795177000", true), (#""2026-11-20T12:16:40Z""#, true), ("1795176000", false), ("null", false), ("[]", false),
        ("-1", false), ("1e300", false), (#""soon""#, false),
    ])
    func aRenewalWaitsForTheMomentThatTheServerHasNamed(_ moment: String, waits: Bool) {
        let members = #","expires_in":200,"earliest_refresh_at":\#(moment)}"#
        var trace = Trace.asking()
        trace.on(.tokensRefreshed(2, tokens(2, endingIn: 200, members)), "save rt_2")
        trace.on(.storeChanged(nil), "answer 1 rt_2 new", "unlock 2")
        trace.elapsed = .seconds(31)
        if waits {
            trace.on(.asked(.token, 2), "answer 2 rt_2")
            trace.on(.asked(.export, 3), "lock 3")
            trace.on(.lockAnswered(3, nil), "read")
            trace.on(.storeRead(stored(2, endingIn: 200, earliest: 1000)), "answer 3 rt_2", "unlock 3")
            // The backend does not take the token, and the server would take an early renewal for a misuse.
            trace.on(.asked(.replacement(of: 2), 4), "lock 4")
            trace.on(.lockAnswered(4, nil), "read")
            trace.on(.storeRead(stored(2, endingIn: 200, earliest: 1000)), "answer 4 later", "unlock 4")
            #expect("\(trace.lifecycle.snapshot.status)".hasPrefix("reauthenticationRequired"))
            trace.on(.asked(.refresh, 5), "lock 5")
            trace.on(.lockAnswered(5, nil), "read")
            trace.on(.storeRead(stored(2, endingIn: 200, earliest: 1000)), "answer 5 later", "unlock 5")
        } else {
            trace.on(.asked(.token, 2), "patience 2", "lock 3")
        }
    }

    /// This machine's clock is 90 s ahead of the server's, which wants no renewal before 360 s of its own are left.
    @Test func theServersTimesAreReadByItsOwnClock() {
        var trace = Trace.asking()
        let answer = Result { () throws(ChappieAuthError) in
            try TokenResponse(
                IssuerResponse(
                    status: 200, headerFields: [.date: "Fri, 20 Nov 2026 11:58:30 GMT"],
                    body: Array(
                        (seed(2, 310).tokenAnswer.dropLast() + #","earliest_refresh_at":"2026-11-20T11:59:10Z"}"#).utf8)
                ))
        }
        trace.on(.tokensRefreshed(2, answer), "save rt_2")
        trace.on(.storeChanged(nil), "answer 1 rt_2 new", "unlock 2")
        trace.elapsed = .seconds(31)
        trace.on(.asked(.token, 2), "answer 2 rt_2")
        trace.on(.asked(.replacement(of: 2), 3), "lock 3")
        let document = trace.lifecycle.retained?.serialized()
        let kept = document.flatMap { try? Credential(serialized: $0, for: CredentialOrigin(Service.endpoints)) }
        trace.on(.lockAnswered(3, nil), "read")
        trace.on(.storeRead(.success(.init(credential: kept))), "answer 3 later", "unlock 3")
        // 40 s after the answer the server's time has come.
        trace.elapsed = .seconds(41)
        trace.on(.asked(.replacement(of: 2), 4), "lock 4")
        trace.on(.lockAnswered(4, nil), "read")
        trace.on(.storeRead(.success(.init(credential: kept))), "prepare")
    }

    @Test func `an expired token is renewed whatever time the server has named`() {
        var trace = Trace()
        trace.on(.asked(.token, 1), "read")
        trace.on(.storeRead(stored(1, endingIn: 200, earliest: 1000)), "answer 1 rt_1")
        trace.elapsed = .seconds(201)
        trace.on(.asked(.token, 2), "lock 2")
        trace.on(.lockAnswered(2, nil), "read")
        trace.on(.storeRead(stored(1, endingIn: 200, earliest: 1000)), "prepare")
        trace.on(.storePrepared(nil), "refresh 2 rt_1")
    }

    @Test func anEndedTokenIsNotUsedWhenItsRenewalFails() {
        var trace = Trace.asking()
        trace.on(.tokensRefreshed(2, .failure(.networkFailure("n"))), "answer 1 soft", "unlock 2")
        trace.on(.asked(.token, 2), "lock 3")
    }

    @Test func `a refresh token counts as dead only after the store was read once more`() {
        var trace = Trace.asking()
        trace.on(dead, "read")
        trace.on(.storeRead(stored(2)), "answer 1 rt_2", "unlock 2")
        trace = .asking()
        trace.on(dead, "read")
        trace.on(.storeRead(stored(1, endingIn: -1)), "save none")
        trace.on(.storeChanged(locked), "answer 1 rejected", "unlock 2")
        #expect(trace.lifecycle.snapshot.status == .reauthenticationRequired(deadToken))
        trace.on(.asked(.token, 5), "read")
        trace.on(.storeRead(stored(1, endingIn: -1)), "answer 5 rejected")
        trace.on(.asked(.token, 6), "read")
        trace.on(nothing, "answer 6 rejected")
        trace.on(.asked(.token, 7), "read")
        trace.on(.storeRead(stored(3)), "answer 7 rt_3")
    }

    // MARK: A dead refresh token beside an access token that is still good

    @Test func `a refused automatic renewal leaves the access token in use to its end`() {
        var trace = Trace.signedIn(endingIn: 200)
        trace.on(.asked(.token, 1), "patience 1", "lock 2")
        trace.on(.lockAnswered(2, nil), "read")
        trace.on(.storeRead(stored(1, endingIn: 200)), "prepare")
        trace.on(.storePrepared(nil), "refresh 2 rt_1")
        trace.on(dead, "read")
        trace.on(.storeRead(stored(1, endingIn: 200)), "renewal was refused", "save none")
        trace.on(.storeChanged(nil), "answer 1 none", "unlock 2")
        #expect("\(trace.lifecycle.snapshot.status)".hasPrefix("signedIn"))
        #expect(trace.lifecycle.snapshot.renewalRefusal?.contains("invalid_grant") == true)
        trace.on(.asked(.token, 2), "answer 2 none")
        // Another process reads it: it does not tell the user again, and asks no server.
        guard let rest = trace.lifecycle.retained else { return #expect(Bool(false), "nothing is kept") }
        var other = Trace()
        other.on(.asked(.token, 1), "read")
        other.on(.storeRead(.success(.init(credential: rest))), "answer 1 none")
        other.elapsed = .seconds(201)
        other.on(.asked(.token, 2), "lock 2")
        other.on(.lockAnswered(2, nil), "read")
        other.on(.storeRead(.success(.init(credential: rest))), "answer 2 rejected", "unlock 2")
        guard case .reauthenticationRequired(.reauthenticationRequired(let reason)) = other.lifecycle.snapshot.status
        else { return #expect(Bool(false)) }
        #expect(reason.contains("invalid_grant"))
    }

    @Test func `a refused renewal on request is shown, and the access token stays`() {
        var trace = Trace.reading(.refresh, endingIn: 7200)
        trace.on(.storeRead(stored(1)), "prepare")
        trace.on(.storePrepared(nil), "refresh 2 rt_1")
        trace.on(dead, "read")
        trace.on(.storeRead(stored(1)), "renewal was refused", "save none")
        trace.on(.storeChanged(nil), "answer 1 rejected", "unlock 2")
        #expect(trace.lifecycle.snapshot.status == .reauthenticationRequired(deadToken))
        trace.on(.asked(.token, 2), "answer 2 none")
    }

    @Test func `a refused token that cannot be renewed has ended in every process`() {
        var trace = Trace.reading(.replacement(of: 1), endingIn: 7200)
        trace.on(.storeRead(stored(1)), "prepare")
        trace.on(.storePrepared(nil), "refresh 2 rt_1")
        trace.on(dead, "read")
        trace.on(.storeRead(stored(1)), "save none")
        trace.on(.storeChanged(nil), "answer 1 rejected", "unlock 2")
        #expect(trace.lifecycle.snapshot.status == .reauthenticationRequired(deadToken))
        guard
            let rest = trace.lifecycle.retained.flatMap({
                try? Credential(serialized: $0.serialized(), for: CredentialOrigin(Service.endpoints))
            })
        else {
            return #expect(Bool(false), "nothing is kept")
        }
        var other = Trace()
        other.on(.asked(.account, 1), "read")
        other.on(.storeRead(.success(.init(credential: rest))), "answer 1 none")
        #expect("\(other.lifecycle.snapshot.status)".hasPrefix("reauthenticationRequired"))
    }

    /// Another process has learned of the refusal a moment before.
    @Test func `a credential that another process marked as unrenewable is accepted`() {
        let marked = CredentialLifecycle.Stored(
            credential: credential(1, endingIn: 200).unrenewable(because: "It was revoked.", refused: false))
        var trace = Trace.signedIn(endingIn: 200)
        trace.on(.asked(.token, 1), "patience 1", "lock 2")
        trace.on(.lockAnswered(2, nil), "read")
        trace.on(.storeRead(.success(marked)), "answer 1 none", "unlock 2")
        trace = .asking()
        trace.on(dead, "read")
        trace.on(
            .storeRead(
                .success(
                    .init(
                        credential: credential(1, endingIn: -1).unrenewable(because: "It was revoked.", refused: false))
                )), "answer 1 rejected", "unlock 2")
    }

    @Test func `another account's tokens are set aside and not used`() throws {
        let foreign = try #require(try? tokens(2, account: "account-9", user: "user-9").get())
        var trace = Trace.signedIn(endingIn: 200)
        trace.on(.asked(.token, 1), "patience 1", "lock 2")
        trace.on(.lockAnswered(2, nil), "read")
        trace.on(.storeRead(stored(1, endingIn: 200)), "prepare")
        trace.on(.storePrepared(nil), "refresh 2 rt_1")
        trace.on(.tokensRefreshed(2, .success(foreign)), "renewal was refused", "save none")
        trace.on(.storeChanged(nil), "answer 1 none", "unlock 2")
        let document = try #require(trace.lifecycle.retained?.serialized().text)
        #expect(document.contains("rt_2") && document.contains("set_aside"))
        #expect(trace.lifecycle.snapshot.renewalRefusal?.contains("another account") == true)
    }

    // MARK: A hold of the lock that has ended

    @Test func `a renewal whose hold has ended takes the lock again and reads the store`() {
        var trace = Trace.preparing()
        trace.on(.storePrepared(.overtaken), "unlock 2", "lock 3")
        trace.on(.lockAnswered(3, nil), "read")
        trace.on(.storeRead(stored(2)), "answer 1 rt_2", "unlock 3")
        // The tokens came, and another process has renewed meanwhile: its tokens count, of the same account.
        trace = .asking()
        trace.on(.tokensRefreshed(2, tokens(2)), "save rt_2")
        trace.on(.storeChanged(.overtaken), "unlock 2", "lock 3")
        trace.on(.lockAnswered(3, nil), "read")
        trace.on(.storeRead(stored(3)), "answer 1 rt_3", "unlock 3")
        // Nobody has changed it: the tokens are saved.
        trace = .asking()
        trace.on(.tokensRefreshed(2, tokens(2)), "save rt_2")
        trace.on(.storeChanged(.overtaken), "unlock 2", "lock 3")
        trace.on(.lockAnswered(3, nil), "read")
        trace.on(.storeRead(stored(1, endingIn: -1)), "save rt_2")
        trace.on(.storeChanged(nil), "answer 1 rt_2 new", "unlock 3")
    }

    @Test func `a store that refuses every hold is not asked forever`() {
        var trace = Trace.preparing()
        for job in 3...4 {
            trace.on(.storePrepared(.overtaken), "unlock \(job - 1)", "lock \(job)")
            trace.on(.lockAnswered(job, nil), "read")
            trace.on(.storeRead(stored(1, endingIn: -1)), "prepare")
        }
        trace.on(.storePrepared(.overtaken), "answer 1 store", "unlock 4")
    }

    @Test func `a best-effort change whose hold has ended is not tried again`() {
        var trace = Trace.asking()
        trace.on(dead, "read")
        trace.on(.storeRead(stored(1, endingIn: -1)), "save none")
        trace.on(.storeChanged(.overtaken), "answer 1 rejected", "unlock 2")
        // What a failed sign-in has stored.
        trace = Trace()
        trace.on(.signInCompleted(credential(7), after: 0, 5), "lock 1")
        trace.on(.lockAnswered(1, nil), "read")
        trace.on(nothing, "save rt_7 verified")
        trace.on(.storeChanged(.notVerified), "read")
        trace.on(.storeRead(stored(7)), "delete")
        trace.on(.storeChanged(.overtaken), "revoke rt_7", "answer 5 store", "unlock 1")
    }

    @Test func `a sign-out whose hold has ended deletes no other account's sign-in`() {
        var trace = Trace.signedIn()
        trace.on(.signedOut(revoking: true, 9), "lock 2")
        trace.on(.lockAnswered(2, nil), "read")
        trace.on(.storeRead(stored(1)), "delete")
        trace.on(.storeChanged(.overtaken), "unlock 2", "lock 3")
        trace.on(.lockAnswered(3, nil), "read")
        trace.on(.storeRead(stored(9, account: "account-9")), "forget tombstone", "signed out 9 [rt_1]", "unlock 3")
    }

    // MARK: Refusals that do not end a sign-in

    private let refusal = ChappieAuthError.tokenExchangeFailed(statusCode: 403, body: #"{"error":"new_word"}"#)

    @Test func `a refused renewal is not tried again before a reload`() {
        var trace = Trace.asking()
        trace.on(.tokensRefreshed(2, .failure(refusal)), "answer 1 rejected", "unlock 2")
        let reason = "Your sign-in could not be renewed (status 403: new_word). Please sign in again."
        #expect(trace.lifecycle.snapshot.status == .reauthenticationRequired(.reauthenticationRequired(reason)))
        trace.on(.asked(.token, 2), "answer 2 rejected")
        trace.on(.asked(.replacement(of: 1), 3), "answer 3 rejected")
        trace.on(.asked(.reload, 4), "read")
        trace.on(.storeRead(stored(1, endingIn: -1)), "answer 4 rt_1")
        #expect(
            trace.lifecycle.snapshot.status
                == .signedIn(credential(1).info, expiresAt: credential(1, endingIn: -1).expiresAt))
        trace.on(.asked(.token, 5), "lock 4")
    }

    @Test func `a refused early renewal leaves the token in use until it expires`() {
        var trace = Trace.signedIn(endingIn: 200)
        trace.on(.asked(.token, 1), "patience 1", "lock 2")
        trace.on(.lockAnswered(2, nil), "read")
        trace.on(.storeRead(stored(1, endingIn: 200)), "prepare")
        trace.on(.storePrepared(nil), "refresh 2 rt_1")
        trace.on(.tokensRefreshed(2, .failure(refusal)), "answer 1 rt_1", "unlock 2")
        trace.elapsed = .seconds(100)
        trace.on(.asked(.token, 2), "answer 2 rt_1")
        trace.elapsed = .seconds(201)
        trace.on(.asked(.token, 3), "answer 3 rejected")
        // The program asks for it by name.
        trace.on(.asked(.refresh, 4), "lock 3")
    }

    // MARK: Reading again

    /// Another process has changed the slot; the rows say what the store holds by then.
    @Test(
        arguments: [
            (stored(1), "answer 1 rt_1", "signedIn"), (stored(2), "answer 1 rt_2", "signedIn"),
            (.success(.init()), "answer 1 missing", "signedOut"),
            (stored(9, account: "account-9"), "answer 1 rejected", "reauthenticationRequired"),
            // It can't be read now; the token in use is good enough.
            (.failure(.locked("l")), "answer 1 rt_1", "signedIn"),
        ] as [(StoreAnswer, String, String)])
    func aChangeByAnotherProcessIsNoticedBeforeTheNextRequest(
        _ found: StoreAnswer, _ expected: String, _ status: String
    ) {
        var trace = Trace.signedIn()
        trace.on(.storeMayHaveChanged)
        trace.on(.asked(.token, 1), "read")
        trace.on(.storeRead(found), expected)
        #expect("\(trace.lifecycle.snapshot.status)".hasPrefix(status))
    }

    @Test func aChangeDuringARenewalIsLookedAtAfterIt() {
        var trace = Trace.asking()
        trace.on(.storeMayHaveChanged)
        trace.on(.asked(.token, 3))
        trace.on(.tokensRefreshed(2, tokens(2)), "save rt_2")
        trace.on(.storeChanged(nil), "read")
        trace.on(.storeRead(stored(2)), "answer 3 rt_2 new", "answer 1 rt_2 new", "unlock 2")
    }

    /// Another process has signed in another account meanwhile.
    @Test func `a sign-out does not change a later sign-in of another account`() {
        for isMismatched in [false, true] {
            var trace = isMismatched ? Trace.reading() : Trace.signedIn()
            if isMismatched {
                trace.on(.storeRead(stored(9, account: "account-9")), "answer 1 rejected", "unlock 2")
            }
            let job = isMismatched ? 3 : 2
            trace.on(.signedOut(revoking: true, 9), "lock \(job)")
            trace.on(.lockAnswered(job, nil), "read")
            trace.on(
                .storeRead(stored(9, account: "account-9")), "forget tombstone", "signed out 9 [rt_1]", "unlock \(job)")
            trace.on(.asked(.token, 3), "read")
            trace.on(.storeRead(stored(9, account: "account-9")), "answer 3 rt_9")
        }
    }

    @Test func `a reload reads the store even if a credential is held`() {
        for (found, expected) in [
            (stored(1), "answer 1 rt_1"), (stored(2), "answer 1 rt_2"),
            (stored(9, account: "account-9"), "answer 1 rt_9"),
            (.success(.init()), "answer 1 missing"), (.failure(locked), "answer 1 rt_1"),
        ] as [(StoreAnswer, String)] {
            var trace = Trace.signedIn()
            trace.on(.asked(.reload, 1), "read")
            trace.on(.storeRead(found), expected)
        }
    }

    @Test func `a reload accepts the other account that a renewal did not accept`() {
        var trace = Trace.reading()
        trace.on(.storeRead(stored(9, account: "account-9")), "answer 1 rejected", "unlock 2")
        trace.on(.asked(.token, 2), "answer 2 rejected")
        trace.on(.asked(.reload, 3), "read")
        trace.on(.storeRead(stored(9, account: "account-9")), "answer 3 rt_9")
    }

    @Test func `a credential without a refresh token is given up when it expires`() {
        var trace = Trace.signedIn(endingIn: -1)
        let bare = CredentialLifecycle.Stored(credential: credential(nil, endingIn: -1))
        trace.on(.asked(.token, 1), "lock 2")
        trace.on(.lockAnswered(2, nil), "read")
        trace.on(.storeRead(.success(bare)), "answer 1 rejected", "unlock 2")
        #expect(trace.lifecycle.snapshot.status == .reauthenticationRequired(.missingRefreshToken))
    }

    /// A caller wants tokens that the store did not take; the rows say what the store holds by then.
    @Test(arguments: [
        (stored(1, endingIn: -1), ["save rt_2"]), (.success(.init()), ["revoke rt_2", "answer 4 missing", "unlock 3"]),
        (stored(9), ["answer 4 rt_9", "unlock 3"]), (stored(2), ["answer 4 rt_2 new", "unlock 3"]),
        (stored(9, account: "account-9"), ["answer 4 rejected", "unlock 3"]),
        (stored(9, account: "account-9", user: "user-9"), ["revoke rt_2", "answer 4 rejected", "unlock 3"]),
        (.failure(.denied("d")), ["answer 4 store", "unlock 3"]),
    ])
    func tokensThatTheStoreDidNotTakeAreSavedLaterIfItHoldsWhatTheyReplace(
        _ found: StoreAnswer, _ expected: [String]
    ) {
        var trace = Trace.asking()
        trace.on(.tokensRefreshed(2, tokens(2)), "save rt_2")
        trace.on(.storeChanged(locked), "answer 1 store", "unlock 2")
        trace.on(.asked(.token, 4), "lock 3")
        trace.on(.asked(.replacement(of: 1), 5))
        trace.on(.lockAnswered(3, nil), "read")
        #expect(trace.actions(.storeRead(found)).filter { !$0.hasPrefix("answer 5") } == expected)
    }

    @Test(
        arguments: [
            (Result.success(.init()), ["revoke rt_2", "answer 1 missing", "unlock 2"]),
            (stored(9, account: "account-9"), ["answer 1 rejected", "unlock 2"]),
            (stored(1, endingIn: -1), ["save rt_2"]), (.failure(.denied("d")), ["save rt_2"]),
        ] as [(StoreAnswer, [String])])
    func aLockHeldForLongIsReasonToLookBeforeSaving(
        _ found: StoreAnswer, _ expected: [String]
    ) {
        var trace = Trace.asking()
        trace.elapsed = .seconds(12)
        trace.on(.tokensRefreshed(2, tokens(2)), "read")
        #expect(trace.actions(.storeRead(found)) == expected)
    }

    @Test func aLate401DoesNotUseUpNewerTokens() {
        var trace = Trace.reading(.replacement(of: 1), endingIn: 7200)
        trace.on(.asked(.replacement(of: 1), 2))
        trace.on(.storeRead(stored(1)), "prepare")
        trace.on(.storePrepared(nil), "refresh 2 rt_1")
        trace.on(.tokensRefreshed(2, tokens(2)), "save rt_2")
        trace.on(.storeChanged(nil), "answer 1 rt_2 new", "answer 2 rt_2 new", "unlock 2")
        trace.elapsed = .seconds(31)
        trace.on(.asked(.replacement(of: 1), 3), "answer 3 rt_2")
    }

    @Test func aFinalRefusalIsToldUntilATokenIsTaken() {
        var trace = Trace.signedIn()
        trace.on(.backendAnswered(generation: 7, refusal: "of an older token"))
        #expect(trace.lifecycle.snapshot.isLoss(after: trace.lifecycle.snapshot) == false)
        trace.on(.backendAnswered(generation: 1, refusal: "no"))
        #expect(trace.lifecycle.snapshot.status == .reauthenticationRequired(.reauthenticationRequired("no")))
        trace.on(.asked(.token, 1), "answer 1 rt_1")
        trace.on(.backendAnswered(generation: 1, refusal: nil))
        #expect(trace.lifecycle.snapshot.status == .signedIn(credential(1).info, expiresAt: credential(1).expiresAt))
    }

    /// The wall clock is wrong: everything that the server gives seems to have ended.
    @Test func aNewTokenIsUsedThoughItSeemsToHaveEnded() {
        var trace = Trace.asking()
        trace.on(.tokensRefreshed(2, tokens(2, endingIn: -60)), "save rt_2")
        trace.on(.storeChanged(nil), "answer 1 rt_2 new", "unlock 2")
        trace.on(.asked(.token, 2), "answer 2 rt_2 new")
        trace.elapsed = .seconds(31)
        trace.on(.asked(.token, 3), "lock 3")
    }

    // MARK: Signing out

    @Test func aSignOutWhileTheServerIsAskedWins() {
        for revoking in [true, false] {
            var trace = Trace.asking()
            trace.on(.signedOut(revoking: revoking, 9), "answer 1 missing", "read")
            trace.on(.asked(.token, 4))
            trace.on(.storeRead(stored(1, endingIn: -1)), "delete")
            let revoked = revoking ? "[rt_1]" : "[]"
            trace.on(
                .storeChanged(nil), "forget tombstone", "signed out 9 \(revoked)", "answer 4 missing", "unlock 2")
            let actions = trace.actions(.tokensRefreshed(2, tokens(2)))
            #expect(actions == (revoking ? ["revoke rt_2"] : []))
        }
    }

    @Test func `a sign-out wins while a renewal waits for another process`() {
        var trace = Trace.signedIn(endingIn: -1)
        trace.on(.asked(.token, 1), "lock 2")
        trace.on(.signedOut(revoking: true, 9), "answer 1 missing", "lock 3")
        trace.on(.lockAnswered(2, nil), "unlock 2")
        trace.on(.lockAnswered(3, .busy(.seconds(10))), "read")
        trace.on(.storeRead(stored(2)), "delete")
        trace.on(.storeChanged(nil), "forget tombstone", "signed out 9 [rt_1 rt_2]")
    }

    @Test func `a sign-out while new tokens are saved also removes them`() {
        var trace = Trace.asking()
        trace.on(.tokensRefreshed(2, tokens(2)), "save rt_2")
        trace.on(.signedOut(revoking: true, 9))
        // The lock goes with the last of both: another process may not renew what is about to be deleted.
        trace.on(.storeChanged(nil), "read")
        trace.on(.storeRead(stored(2)), "delete")
        trace.on(.storeChanged(nil), "forget tombstone", "signed out 9 [rt_2]", "answer 1 missing", "unlock 2")
    }

    @Test func signOutsAtTheSameTimeAreOne() {
        var trace = Trace.signedIn()
        trace.on(.signedOut(revoking: true, 8), "lock 2")
        trace.on(.signedOut(revoking: true, 9))
        trace.on(.lockAnswered(2, nil), "read")
        trace.on(.storeRead(stored(1)), "delete")
        trace.on(.storeChanged(nil), "forget tombstone", "signed out 8 [rt_1]", "signed out 9 []", "unlock 2")
    }

    /// Deleting needs no access, so that the user is not asked for it twice.
    @Test func aSignOutDoesNotAskAgainForWhatWasDenied() {
        var trace = Trace()
        trace.on(.asked(.account, 1), "read")
        trace.on(.storeRead(.failure(.denied("d"))), "answer 1 store")
        trace.on(.signedOut(revoking: true, 9), "lock 2")
        trace.on(.lockAnswered(2, nil), "delete")
        trace.on(.storeChanged(nil), "forget tombstone", "signed out 9 []", "unlock 2")
    }

    /// Another account may have signed in since the credential was read.
    @Test(arguments: [CredentialStoreError.wrongPassphrase("w"), .denied("d"), .noPassphrase("n")])
    func `a sign-out deletes nothing unread once a credential was known`(_ denial: CredentialStoreError) {
        var trace = Trace.signedIn()
        trace.on(.storeMayHaveChanged)
        trace.on(.asked(.token, 1), "read")
        trace.on(.storeRead(.failure(denial)), "answer 1 rt_1")
        trace.on(.signedOut(revoking: true, 9), "lock 3")
        trace.on(.lockAnswered(3, nil), "read")
        var denied = trace
        denied.on(.storeRead(.failure(denial)), "tombstone", "signed out 9 store [rt_1]", "unlock 3")
        trace.on(.storeRead(stored(9, account: "account-9")), "forget tombstone", "signed out 9 [rt_1]", "unlock 3")
    }

    /// A sign-out that the store has refused.
    private func refusedSignOut(revoking: Bool = true) -> Trace {
        var trace = Trace.signedIn()
        trace.on(.signedOut(revoking: revoking, 9), "lock 2")
        trace.on(.lockAnswered(2, nil), "read")
        trace.on(.storeRead(stored(1)), "delete")
        trace.on(.storeChanged(locked), "tombstone", "signed out 9 store [\(revoking ? "rt_1" : "")]", "unlock 2")
        return trace
    }

    private func marked(
        _ serial: Int, account: String? = nil, revoking: Bool = true
    ) -> StoreAnswer {
        let tombstone = Tombstone(at: start, revokes: revoking, [credential(1)])
        return .success(.init(credential: credential(serial, account: account), tombstone: tombstone))
    }

    /// The next caller comes after a refused sign-out; the rows say what the store holds by then.
    @Test(arguments: [
        (1, nil as String?, true, true), (2, nil, true, true), (7, nil, false, false), (9, "account-9", true, false),
    ])
    func aRefusedSignOutIsMadeUpForButNeverAtTheCostOfALaterSignIn(
        _ serial: Int, _ account: String?, _ hasTombstone: Bool, _ isDeleted: Bool
    ) {
        var trace = refusedSignOut()
        trace.on(.asked(.token, 1), "lock 3")
        trace.on(.lockAnswered(3, nil), "read")
        let found = hasTombstone ? marked(serial, account: account) : stored(serial, account: account)
        if isDeleted {
            trace.on(.storeRead(found), "delete")
            #expect(trace.actions(.storeChanged(nil)).suffix(2) == ["answer 1 missing", "unlock 3"])
        } else {
            trace.on(.storeRead(found), "forget tombstone", "read")
            trace.on(.storeRead(stored(serial)), "answer 1 rt_\(serial)", "unlock 3")
        }
    }

    @Test func aSignOutThatCanNotBeMadeUpForStaysOne() {
        for failure in [Input.storeRead(.failure(locked)), .storeChanged(locked)] {
            var trace = refusedSignOut()
            trace.on(.asked(.account, 1), "lock 3")
            trace.on(.lockAnswered(3, nil), "read")
            if case .storeChanged = failure { trace.on(.storeRead(marked(1)), "delete") }
            #expect(trace.actions(failure).suffix(2) == ["answer 1 missing", "unlock 3"])
            trace.on(.asked(.account, 2), "lock 4")
        }
    }

    @Test func anExportedCredentialIsNotRevokedLater() throws {
        // By this process.
        var trace = refusedSignOut(revoking: false)
        trace.on(.asked(.account, 1), "lock 3")
        trace.on(.lockAnswered(3, nil), "read")
        trace.on(.storeRead(marked(1, revoking: false)), "delete")
        trace.on(.storeChanged(nil), "forget tombstone", "answer 1 missing", "unlock 3")
        // By the next one.
        trace = Trace()
        trace.on(.asked(.account, 1), "read")
        trace.on(.storeRead(marked(1, revoking: false)), "lock 2")
        trace.on(.lockAnswered(2, nil), "read")
        trace.on(.storeRead(marked(1, revoking: false)), "delete")
        trace.on(.storeChanged(nil), "forget tombstone", "answer 1 missing", "unlock 2")
        // By a sign-in, in this process or the next one.
        for (first, found) in [(refusedSignOut(revoking: false), stored(1)), (Trace(), marked(1, revoking: false))] {
            trace = first
            let job = trace.lifecycle.snapshot.signOuts == 0 ? 1 : 3
            trace.on(.signInCompleted(credential(7), after: trace.lifecycle.snapshot.signOuts, 5), "lock \(job)")
            trace.on(.lockAnswered(job, nil), "read")
            trace.on(.storeRead(found), "save rt_7 verified")
            trace.on(.storeChanged(nil), "forget tombstone", "answer 5 rt_7 new", "unlock \(job)")
        }
    }

    @Test func aTombstoneOfAnEarlierProcessIsASignOut() {
        var trace = Trace()
        trace.on(.asked(.account, 1), "read")
        trace.on(.storeRead(marked(2)), "lock 2")
        #expect(trace.lifecycle.snapshot.status == .signedOut)
        trace.on(.lockAnswered(2, nil), "read")
        trace.on(.storeRead(marked(2)), "delete")
        trace.on(.storeChanged(nil), "forget tombstone", "revoke rt_2", "answer 1 missing", "unlock 2")
        // Another account has signed in since: it stays.
        trace = Trace()
        trace.on(.asked(.account, 1), "read")
        trace.on(.storeRead(marked(9, account: "account-9")), "forget tombstone", "answer 1 rt_9")
        // The same account has, between the two reads.
        trace = Trace()
        trace.on(.asked(.account, 1), "read")
        trace.on(.storeRead(marked(7)), "lock 2")
        trace.on(.lockAnswered(2, nil), "read")
        trace.on(.storeRead(stored(7)), "forget tombstone", "read")
        trace.on(.storeRead(stored(7)), "answer 1 rt_7", "unlock 2")
    }

    /// A tombstone may come back: from a folder that was restored, or of a process that was killed before it removed it.
    @Test func `a tombstone that is older than its account's sign-in is forgotten`() throws {
        let tombstone = Tombstone(at: start, revokes: true, [credential(1)])
        let later = credential(1).imported(at: start.addingTimeInterval(60))
        let answer = try #require(try? tokens(2).get())
        // The sign-out covers a sign-in that another process renewed after it.
        for (isLater, found) in [
            (true, later), (true, later.refreshed(with: answer, at: start.addingTimeInterval(120))),
            (false, credential(1).imported(at: start).refreshed(with: answer, at: start.addingTimeInterval(120))),
        ] {
            var trace = Trace()
            trace.on(.asked(.account, 1), "read")
            let actions = trace.actions(.storeRead(.success(.init(credential: found, tombstone: tombstone))))
            let name = found.refreshToken?.text ?? ""
            #expect(actions == (isLater ? ["forget tombstone", "answer 1 \(name)"] : ["lock 2"]))
        }
        // The clock was ahead at the sign-in.
        #expect(Tombstone(at: start, revokes: true, [later]).means(later))
    }

    @Test func `a sign-out elsewhere is obeyed even if the store cannot be read`() {
        for (serial, account, isObeyed) in [(1, nil as String?, true), (9, "account-9", false)] {
            var trace = Trace.signedIn()
            let tombstone = Tombstone(at: start, revokes: true, [credential(serial, account: account)])
            trace.on(.storeMayHaveChanged)
            trace.on(.asked(.token, 1), "read")
            if isObeyed {
                trace.on(.storeRead(.failure(locked), tombstone: tombstone), "lock 3")
                #expect(trace.lifecycle.snapshot.status == .signedOut)
                trace.on(.lockAnswered(3, nil), "read")
                trace.on(.storeRead(.failure(locked), tombstone: tombstone), "answer 1 missing", "unlock 3")
            } else {
                trace.on(.storeRead(.failure(locked), tombstone: tombstone), "answer 1 rt_1")
            }
        }
    }

    @Test func aTombstoneComesBackAsItWas() throws {
        let written = Tombstone(at: start, revokes: false, [credential(1)])
        let read = try #require(Tombstone(serialized: written.serialized()))
        #expect(read.accounts == written.accounts && !read.revokes)
        #expect(read.means(credential(2)) && !read.means(credential(9, account: "account-9")))
        for document in ["", "{}", "[]", #"{"signed_out_at":5}"#] {
            #expect(Tombstone(serialized: Array(document.utf8)) == nil)
        }
    }

    // MARK: Signing in

    @Test func `a sign-in replaces what the store contains, not what is remembered`() {
        var trace = Trace.signedIn()
        trace.on(.signInCompleted(credential(7), after: 0, 5), "lock 2")
        trace.on(.lockAnswered(2, nil), "read")
        trace.on(.storeRead(stored(2)), "save rt_7 verified")
        trace.on(.storeChanged(nil), "forget tombstone", "answer 5 rt_7 new", "unlock 2")
        // Unless that could not be read.
        trace = .signedIn()
        trace.on(.signInCompleted(credential(7), after: nil, 5), "lock 2")
        trace.on(.lockAnswered(2, nil), "read")
        trace.on(.storeRead(.failure(.corrupt("c"))), "save rt_7 verified")
        trace.on(.storeChanged(nil), "forget tombstone", "answer 5 rt_7", "unlock 2")
    }

    /// A revocation may end all of a user's sign-ins. A sign-out is the only thing that asks for one.
    @Test(arguments: [(nil, nil), ("account-9", nil), ("account-9", "user-9")] as [(String?, String?)])
    func `a sign-in revokes only another user's credential, and only after a sign-out`(
        _ account: String?, _ user: String?
    ) {
        let found = credential(2, account: account, user: user)
        for revokes in [true, false, nil] {
            var trace = Trace()
            trace.on(.signInCompleted(credential(7), after: 0, 5), "lock 1")
            trace.on(.lockAnswered(1, nil), "read")
            let tombstone = revokes.map { Tombstone(at: start, revokes: $0, [found]) }
            trace.on(.storeRead(.success(.init(credential: found, tombstone: tombstone))), "save rt_7 verified")
            let revoked = revokes == true && user != nil ? ["revoke rt_2"] : []
            let actions = trace.actions(.storeChanged(nil))
            #expect(actions == revoked + ["forget tombstone", "answer 5 rt_7 new", "unlock 1"])
        }
    }

    @Test func `a sign-in goes before a renewal that waits for another process`() {
        var trace = Trace.signedIn(endingIn: -1)
        trace.on(.asked(.token, 1), "lock 2")
        trace.on(.signInCompleted(credential(7), after: 0, 5), "lock 3")
        trace.on(.lockAnswered(2, nil), "unlock 2")
        trace.on(.lockAnswered(3, .busy(.seconds(10))), "read")
        trace.on(.storeRead(stored(1, endingIn: -1)), "save rt_7 verified")
        trace.on(.storeChanged(nil), "forget tombstone", "answer 5 rt_7 new", "lock 4")
        trace.on(.lockAnswered(4, nil), "read")
        trace.on(.storeRead(stored(7)), "answer 1 rt_7 new", "unlock 4")
    }

    /// The sign-in has failed or was cancelled; the rows say what the store held before, and what it holds by then.
    @Test(
        arguments: [
            (stored(2), stored(7), "save rt_2"), (.success(.init()), stored(7), "delete"),
            (stored(2), stored(3), nil), (.failure(.corrupt("c")), stored(7), nil),
            (stored(2, account: "account-9", user: "user-9"), stored(7), "save rt_2"),
        ]
            as [(
                StoreAnswer,
                StoreAnswer, String?
            )])
    func aSignInThatFailsPutsBackWhatTheStoreHeld(
        _ before: StoreAnswer,
        _ now: StoreAnswer, _ expected: String?
    ) {
        // A revocation might end the earlier sign-in of the same user, which stays.
        let earlier = try? before.get().credential
        let revoked = earlier?.info.userID == "user-1" ? [] : ["revoke rt_7"]
        for isCancelled in [true, false] {
            var trace = Trace.signedIn()
            trace.on(.signInCompleted(credential(7), after: 0, 5), "lock 2")
            trace.on(.lockAnswered(2, nil), "read")
            trace.on(.storeRead(before), "save rt_7 verified")
            if isCancelled { trace.on(.signInCancelled(5)) }
            trace.on(.storeChanged(isCancelled ? nil : .notVerified), "read")
            var actions = trace.actions(.storeRead(now))
            if let expected {
                #expect(actions == [expected])
                actions = trace.actions(.storeChanged(nil))
            }
            #expect(actions == revoked + ["answer 5 \(isCancelled ? "cancelled" : "store")", "unlock 2"])
        }
    }

    @Test func aSignOutDuringASignInOrAnImportWins() {
        for after in [0, nil] {
            var trace = Trace()
            trace.on(.signInCompleted(credential(7), after: after, 5), "lock 1")
            trace.on(.lockAnswered(1, nil), "read")
            trace.on(nothing, "save rt_7 verified")
            trace.on(.signedOut(revoking: true, 9))
            trace.on(.storeChanged(nil), "read")
            trace.on(.storeRead(stored(7)), "delete")
            // An imported credential is another machine's too.
            let revoked = after == nil ? [] : ["revoke rt_7"]
            #expect(trace.actions(.storeChanged(nil)) == revoked + ["answer 5 cancelled", "read"])
            trace.on(nothing, "delete")
            trace.on(.storeChanged(nil), "forget tombstone", "signed out 9 []", "unlock 1")
        }
    }

    @Test func `a sign-in after a refused sign-out replaces the credential or leaves it`() {
        var trace = refusedSignOut()
        trace.on(.signInCompleted(credential(7), after: 1, 5), "lock 3")
        trace.on(.lockAnswered(3, nil), "read")
        // Another process has signed in.
        trace.on(.storeRead(stored(8)), "save rt_7 verified")
        trace.on(.storeChanged(locked), "read")
        trace.on(.storeRead(stored(8)), "answer 5 store", "unlock 3")
        trace.on(.signInCompleted(credential(6), after: 0, 6), "lock 4")
        trace.on(.lockAnswered(4, nil), "read")
        trace.on(.storeRead(stored(8)), "revoke rt_6", "answer 6 cancelled", "unlock 4")
    }

    @Test func `another service's credential is neither replaced nor deleted`() {
        let foreign = Input.storeRead(.failure(.foreign("f")))
        var trace = Trace()
        trace.on(.signInCompleted(credential(7), after: 0, 5), "lock 1")
        trace.on(.lockAnswered(1, nil), "read")
        trace.on(foreign, "revoke rt_7", "answer 5 store", "unlock 1")
        trace.on(.signedOut(revoking: true, 9), "lock 2")
        trace.on(.lockAnswered(2, nil), "read")
        trace.on(foreign, "forget tombstone", "signed out 9 []", "unlock 2")
    }

    // MARK: Settling

    @Test func `settling gives up a renewal that only waits for another process`() {
        var trace = Trace.signedIn(endingIn: -1)
        trace.on(.asked(.token, 1), "lock 2")
        trace.on(.settlingAsked(8), "answer 1 store", "answer 8 settled")
        // It does not ask the server when the process is about to end.
        trace.on(.lockAnswered(2, nil), "unlock 2")
        // An early one leaves the token in use.
        trace = .signedIn(endingIn: 200)
        trace.on(.asked(.token, 1), "patience 1", "lock 2")
        trace.on(.settlingAsked(8), "answer 1 rt_1", "answer 8 settled")
        trace.on(.lockAnswered(2, nil), "unlock 2")
    }

    @Test func aRenewalThatHasItsLockIsWaitedFor() {
        var trace = Trace.reading()
        trace.on(.settlingAsked(9))
        trace.on(.storeRead(stored(2)), "answer 1 rt_2", "unlock 2", "answer 9 settled")
    }

    @Test func aSignOutThatWaitsForAReadIsWaitedFor() {
        var trace = Trace()
        trace.on(.asked(.account, 1), "read")
        trace.on(.signedOut(revoking: true, 9))
        trace.on(.settlingAsked(8))
        trace.on(.storeRead(stored(1)), "lock 2")
    }

    @Test func revocationsAndLateTokensAreWaitedFor() {
        var trace = Trace.asking()
        trace.on(.signedOut(revoking: true, 9), "answer 1 missing", "read")
        trace.on(.storeRead(stored(1, endingIn: -1)), "delete")
        trace.on(.storeChanged(nil), "forget tombstone", "signed out 9 [rt_1]", "unlock 2")
        trace.on(.settlingAsked(8))
        trace.on(.revocationEnded)
        trace.on(.tokensRefreshed(2, tokens(2)), "revoke rt_2")
        trace.on(.revocationEnded, "answer 8 settled")
    }

    /// They are lost with the process, and the old refresh token is used up.
    @Test func `a process that ends waits for a store that refused its tokens`() {
        var trace = Trace.asking()
        trace.on(.tokensRefreshed(2, tokens(2)), "save rt_2")
        trace.on(.storeChanged(locked), "answer 1 store", "unlock 2")
        trace.on(.settlingAsked(8), "patience 8", "lock 3")
        trace.on(.lockAnswered(3, nil), "read")
        trace.on(.storeRead(stored(1, endingIn: -1)), "save rt_2")
        trace.on(.storeChanged(locked), "unlock 3")
        trace.on(.patienceEnded(8), "patience 8", "lock 4")
        trace.on(.lockAnswered(4, nil), "read")
        trace.on(.storeRead(stored(1, endingIn: -1)), "save rt_2")
        trace.on(.storeChanged(nil), "unlock 4", "answer 8 settled")
        // The process was about to end before the server answered.
        trace = .asking()
        trace.on(.settlingAsked(8))
        trace.on(.tokensRefreshed(2, tokens(2)), "save rt_2")
        trace.on(.storeChanged(locked), "answer 1 store", "patience 8", "read")
        trace.on(.storeRead(stored(1, endingIn: -1)), "save rt_2")
        trace.on(.storeChanged(nil), "unlock 2", "answer 8 settled")
    }

    @Test func `an ending process waits for the store neither forever nor after a denial`() {
        for isDenied in [true, false] {
            var trace = Trace.asking()
            trace.on(.tokensRefreshed(2, tokens(2)), "save rt_2")
            trace.on(.storeChanged(locked), "answer 1 store", "unlock 2")
            trace.on(.settlingAsked(8), "patience 8", "lock 3")
            trace.on(.lockAnswered(3, nil), "read")
            if !isDenied { trace.elapsed = .seconds(20) }
            trace.on(
                .storeRead(.failure(isDenied ? .denied("d") : locked)), "unlock 3", "answer 8 settled")
        }
    }

    @Test func `a read that ends after settling begins no renewal`() {
        for (end, expected) in [(-1.0, "answer 1 store"), (200, "answer 1 rt_1"), (7200, "answer 1 rt_1")] {
            var trace = Trace()
            trace.on(.asked(.token, 1), "read")
            trace.on(.settlingAsked(8), "answer 8 settled")
            #expect(
                trace.actions(.storeRead(stored(1, endingIn: end))).filter { $0 != "patience 1" } == [expected])
        }
        // The process lives on.
        var trace = Trace.signedIn(endingIn: -1)
        trace.on(.settlingAsked(8), "answer 8 settled")
        trace.on(.asked(.token, 1), "lock 2")
    }

    // MARK: Two processes

    /// Two lives over one store, one lock and one server that takes every refresh token once, in many orders.
    @Test func `no order of events uses a refresh token twice or loses a caller`() {
        for seed in 0..<200 { World(seed: UInt64(seed)).run() }
    }
}

typealias StoreAnswer = Result<CredentialLifecycle.Stored, CredentialStoreError>

/// A store, a lock, a server and two processes; one action at a time is carried out, chosen by chance.
private struct World {
    var random: UInt64
    var lives = [CredentialLifecycle(), CredentialLifecycle()]
    var todo: [(process: Int, action: CredentialLifecycle.Action)] = []
    var store: Credential? = credential(1, endingIn: -1)
    var lockHolder: [Int]?
    var serial = 1
    var used: Set<Int> = []
    var answered: [String] = []

    init(seed: UInt64) { random = seed }

    /// A linear congruential generator (Knuth's MMIX): the same order for the same seed.
    private mutating func chance(of count: Int) -> Int {
        random = random &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return Int(random >> 33) % count
    }

    mutating func report(_ process: Int, _ input: CredentialLifecycle.Input) {
        let moment = CredentialLifecycle.Timestamp(now: start, elapsed: .zero)
        todo += lives[process].handle(input, at: moment).map { (process, $0) }
    }

    consuming func run() {
        var asked = 0
        let signsOut = chance(of: 3) == 0
        for process in 0...1 {
            for waiter in 1...2 {
                report(process, .asked(waiter == 1 ? .token : .refresh, waiter))
                asked += 1
            }
        }
        if signsOut {
            report(0, .signedOut(revoking: true, 3))
            asked += 1
        }
        var steps = 0
        while !todo.isEmpty, steps < 1000 {
            steps += 1
            let (process, action) = todo.remove(at: chance(of: todo.count))
            perform(process, action)
        }
        #expect(todo.isEmpty, "it never ends")
        #expect(lockHolder == nil, "the lock was never given back")
        #expect(answered.count == asked, "a caller was lost")
        if signsOut {
            #expect(store == nil || answered.contains { $0.hasPrefix("0 signed out") })
        } else {
            #expect(store?.refreshToken?.text == "rt_\(serial)")
        }
    }

    private mutating func perform(_ process: Int, _ action: CredentialLifecycle.Action) {
        switch action {
        case .acquireLock(let job, _):
            guard lockHolder == nil else { return todo.append((process, action)) }
            lockHolder = [process, job]
            report(process, .lockAnswered(job, nil))
        case .releaseLock(let job): if lockHolder == [process, job] { lockHolder = nil }
        case .readStore: report(process, .storeRead(.success(.init(credential: store))))
        // Now and then it can't save.
        case .prepareToSave: report(process, .storePrepared(chance(of: 8) == 0 ? .failed("full") : nil))
        case .save(let credential, _):
            store = credential
            report(process, .storeChanged(nil))
        case .delete:
            store = nil
            report(process, .storeChanged(nil))
        case .refresh(let job, let token, _, _):
            let number = Int(token.text.dropFirst(3)) ?? 0
            #expect(used.insert(number).inserted, "a refresh token was used twice")
            serial += 1
            report(process, .tokensRefreshed(job, tokens(serial)))
        case .revoke: report(process, .revocationEnded)
        case .answer: answered.append("\(process) \(action.words)")
        case .startPatience, .keepTombstone, .renewalWasRefused, .renewalWasTakenOver: break
        }
    }
}

/// Signed in with `rt_SERIAL`, or without a refresh token.
private func seed(_ serial: Int?, _ seconds: TimeInterval, account: String? = nil, user: String? = nil) -> SeededAuth {
    var seed = person(endingIn: seconds, serial: serial ?? 0)
    seed.refreshToken = serial.map { "rt_\($0)" }
    seed.accountID = account ?? seed.accountID
    seed.userID = user ?? seed.userID
    return seed
}

/// - Parameter earliest: the server wants no renewal before that many seconds after the start.
private func credential(
    _ serial: Int?, endingIn seconds: TimeInterval = 7200, account: String? = nil, user: String? = nil,
    earliest: TimeInterval? = nil
) -> Credential {
    let seed = seed(serial, seconds, account: account, user: user)
    let moment = earliest.map { #","earliest_refresh":"\#(start.addingTimeInterval($0).ISO8601Format())"}"# } ?? "}"
    let document = Secret(seed.credential.text.dropLast() + moment)
    guard let credential = try? Credential(serialized: document, for: CredentialOrigin(Service.endpoints)) else {
        preconditionFailure("the seed is a credential")
    }
    return credential
}

private func stored(
    _ serial: Int, endingIn seconds: TimeInterval = 7200, account: String? = nil, user: String? = nil,
    earliest: TimeInterval? = nil
) -> StoreAnswer {
    .success(
        .init(credential: credential(serial, endingIn: seconds, account: account, user: user, earliest: earliest)))
}

/// - Parameter rest: the end of the answer after its tokens.
private func tokens(
    _ serial: Int, endingIn seconds: TimeInterval = 7200, _ rest: String = "}", account: String? = nil,
    user: String? = nil
) -> Result<TokenResponse, ChappieAuthError> {
    let body = Array((seed(serial, seconds, account: account, user: user).tokenAnswer.dropLast() + rest).utf8)
    return Result { () throws(ChappieAuthError) in try TokenResponse(IssuerResponse(status: 200, body: body)) }
}

extension CredentialLifecycle.Action {
    fileprivate var words: String {
        switch self {
        case .acquireLock(let job, _): "lock \(job)"
        case .releaseLock(let job): "unlock \(job)"
        case .renewalWasTakenOver: "taken over"
        case .readStore: "read"
        case .prepareToSave: "prepare"
        case .save(let credential, let isVerified): "save \(name(credential))\(isVerified ? " verified" : "")"
        case .delete: "delete"
        case .refresh(let job, let token, _, _): "refresh \(job) \(token.text)"
        case .revoke(let credential): "revoke \(name(credential))"
        case .answer(let waiter, .success(.credential(let held, let isNew))):
            "answer \(waiter) \(name(held.credential))\(isNew ? " new" : "")"
        case .answer(let waiter, .success(.signedOut(let error, let credentials))):
            "signed out \(waiter)\(error == nil ? "" : " store") [\(credentials.map(name).joined(separator: " "))]"
        case .answer(let waiter, .success(.settled)): "answer \(waiter) settled"
        case .answer(let waiter, .failure(let failure)): "answer \(waiter) \(failure.word)"
        case .startPatience(let waiter, _): "patience \(waiter)"
        case .renewalWasRefused: "renewal was refused"
        case .keepTombstone(let tombstone): tombstone == nil ? "forget tombstone" : "tombstone"
        }
    }

    private func name(_ credential: Credential) -> String { credential.refreshToken?.text ?? "none" }
}

extension ChappieAuthError {
    fileprivate var word: String {
        switch self {
        case .missingCredential: "missing"
        case .credentialStoreUnavailable: "store"
        case .cancelledSignIn: "cancelled"
        case .renewableLater: "later"
        default: requiresReauthentication ? "rejected" : "soft"
        }
    }
}
