import ChappieTesting
import FoundationEssentials
import Testing

@testable import ChappieAuth

/// The life of a credential as tables: an input, and what is to be done about it. Nothing waits.
@Suite struct CredentialLifecycleTests {
    typealias Input = CredentialLifecycle.Input

    /// One life, told input by input.
    struct Story {
        var lifecycle = CredentialLifecycle()
        var elapsed = Duration.zero

        mutating func on(_ input: Input, _ expected: String..., at location: SourceLocation = #_sourceLocation) {
            #expect(actions(input) == expected, sourceLocation: location)
        }

        mutating func actions(_ input: Input) -> [String] {
            let moment = CredentialLifecycle.Moment(now: start.addingTimeInterval(elapsed.seconds), elapsed: elapsed)
            return lifecycle.handle(input, at: moment).map(\.words)
        }

        /// Signed in with the first credential, which ends after `seconds`.
        static func signedIn(endingIn seconds: TimeInterval) -> Story {
            var story = Story()
            story.on(.accountAsked(100), "read 1")
            story.on(.storeRead(1, stored(1, endingIn: seconds)), "answer 100 rt_1")
            return story
        }

        /// Job 2 has asked the server with the first refresh token, for waiter 1.
        static func asking() -> Story {
            var story = signedIn(endingIn: -1)
            story.on(.requestNeedsToken(1), "lock 2")
            story.on(.lockAnswered(2, nil), "read 2")
            story.on(.storeRead(2, stored(1, endingIn: -1)), "refresh 2 rt_1")
            return story
        }
    }

    // MARK: Loading

    @Test func allWhoAskShareOneRead() {
        var story = Story()
        story.on(.accountAsked(1), "read 1")
        story.on(.requestNeedsToken(2))
        story.on(.storeRead(1, stored(1)), "answer 1 rt_1", "answer 2 rt_1")
        story.on(.requestNeedsToken(3), "answer 3 rt_1")
    }

    @Test func anEmptySlotIsReadAgainForTheNextCaller() {
        var story = Story()
        story.on(.accountAsked(1), "read 1")
        story.on(.storeRead(1, .success(.init())), "answer 1 missing")
        story.on(.accountAsked(2), "read 2")
        story.on(.storeRead(2, .failure(.locked("l"))), "answer 2 store")
        story.on(.accountAsked(3), "read 3")
        story.on(.storeRead(3, stored(1)), "answer 3 rt_1")
    }

    // MARK: Renewal

    @Test func newTokensAreSavedBeforeTheyAreUsed() {
        var story = Story.asking()
        story.on(.requestNeedsToken(3))
        story.on(.tokensRefreshed(2, tokens(2)), "save 2 rt_2")
        story.on(.requestNeedsToken(4))
        story.on(.storeSaved(2, nil), "unlock 2", "answer 4 rt_2", "answer 1 rt_2 new", "answer 3 rt_2 new")
    }

    @Test func tokensThatAnotherProcessRenewedSpareTheServer() {
        var story = Story.signedIn(endingIn: -1)
        story.on(.requestNeedsToken(1), "lock 2")
        story.on(.lockAnswered(2, nil), "read 2")
        story.on(.storeRead(2, stored(2)), "unlock 2", "answer 1 rt_2")
    }

    @Test func anEarlyRenewalThatFailsSoftlyLeavesTheOldTokenInUse() {
        for failure in [Input.lockAnswered(2, .busy(.seconds(45)))] {
            var story = Story.signedIn(endingIn: 200)
            story.on(.requestNeedsToken(1), "patience 1", "lock 2")
            story.on(failure, "answer 1 rt_1")
            story.on(.requestNeedsToken(2), "answer 2 rt_1")
            story.elapsed = .seconds(31)
            story.on(.requestNeedsToken(3), "patience 3", "lock 3")
            story.on(.patienceEnded(3), "answer 3 rt_1")
            story.on(.patienceEnded(3))
        }
    }

    @Test func aDeadRefreshTokenIsBelievedAfterTheStoreWasReadOnceMore() {
        let dead = Input.tokensRefreshed(2, .failure(.rejected(.missingRefreshToken, reason: "r")))
        var story = Story.asking()
        story.on(dead, "read 2")
        story.on(.storeRead(2, stored(2)), "unlock 2", "answer 1 rt_2")
        story = .asking()
        story.on(dead, "read 2")
        story.on(.storeRead(2, stored(1, endingIn: -1)), "delete 2")
        story.on(.storeDeleted(2, .locked("l")), "unlock 2", "answer 1 rejected")
        story.on(.requestNeedsToken(5), "read 3")
        story.on(.storeRead(3, stored(1, endingIn: -1)), "answer 5 rejected")
        story.on(.requestNeedsToken(6), "read 4")
        story.on(.storeRead(4, stored(3)), "answer 6 rt_3")
    }

    @Test func tokensThatTheStoreDidNotTakeAreSavedLaterIfItHoldsWhatTheyReplace() {
        for (found, expected) in [
            (stored(1, endingIn: -1), "save 3 rt_2"), (.success(.init()), "revoke rt_2"), (stored(9), "revoke rt_2"),
            (stored(2), "unlock 3"),
        ] {
            var story = Story.asking()
            story.on(.tokensRefreshed(2, tokens(2)), "save 2 rt_2")
            story.on(.storeSaved(2, .locked("l")), "unlock 2", "answer 1 store")
            story.on(.requestNeedsToken(4), "lock 3")
            story.on(.lockAnswered(3, nil), "read 3")
            #expect(story.actions(.storeRead(3, found)).first == expected)
        }
    }

    @Test func aLockHeldForLongIsReasonToLookBeforeSaving() {
        var story = Story.asking()
        story.elapsed = .seconds(12)
        story.on(.tokensRefreshed(2, tokens(2)), "read 2")
        story.on(.storeRead(2, .success(.init())), "revoke rt_2", "unlock 2", "answer 1 missing")
    }

    @Test func aLate401DoesNotUseUpNewerTokens() {
        var story = Story.signedIn(endingIn: 7200)
        story.on(.tokenRefused(generation: 1, 1), "lock 2")
        story.on(.tokenRefused(generation: 1, 2))
        story.on(.lockAnswered(2, nil), "read 2")
        story.on(.storeRead(2, stored(1)), "refresh 2 rt_1")
        story.on(.tokensRefreshed(2, tokens(2)), "save 2 rt_2")
        story.on(.storeSaved(2, nil), "unlock 2", "answer 1 rt_2 new", "answer 2 rt_2 new")
        story.on(.tokenRefused(generation: 1, 3), "answer 3 rt_2")
    }

    // MARK: Signing out

    @Test func aSignOutWhileTheServerIsAskedWins() {
        var story = Story.asking()
        story.on(.signedOut(revoking: true, 9), "read 3")
        story.on(.requestNeedsToken(4))
        story.on(.storeRead(3, stored(1, endingIn: -1)), "delete 3")
        story.on(.storeDeleted(3, nil), "forget tombstone", "signed out 9 [rt_1]", "answer 4 missing")
        story.on(.tokensRefreshed(2, tokens(2)), "revoke rt_2", "unlock 2", "answer 1 missing")
    }

    @Test func aSignOutWhileNewTokensAreSavedTakesThemWithIt() {
        var story = Story.asking()
        story.on(.tokensRefreshed(2, tokens(2)), "save 2 rt_2")
        story.on(.signedOut(revoking: true, 9))
        // The lock goes with the last of both: another process may not renew what is about to be deleted.
        story.on(.storeSaved(2, nil), "read 3", "answer 1 missing")
        story.on(.storeRead(3, stored(2)), "delete 3")
        story.on(.storeDeleted(3, nil), "forget tombstone", "signed out 9 [rt_2]", "unlock 2")
    }

    /// A sign-out that the store has refused, with a tombstone or without one.
    private func refusedSignOut(revoking: Bool = true, isTombstoneKept: Bool) -> Story {
        var story = Story.signedIn(endingIn: 7200)
        story.on(.signedOut(revoking: revoking, 9), "lock 2")
        story.on(.lockAnswered(2, nil), "read 2")
        story.on(.storeRead(2, stored(1)), "delete 2")
        story.on(
            .storeDeleted(2, .locked("l")), "tombstone", "signed out 9 store [\(revoking ? "rt_1" : "")]", "unlock 2")
        if isTombstoneKept { story.on(.tombstoneKept) }
        return story
    }

    @Test func aSignInOfAnotherProcessAfterARefusedSignOutStays() {
        var story = refusedSignOut(isTombstoneKept: true)
        story.on(.requestNeedsToken(1), "lock 3")
        story.on(.lockAnswered(3, nil), "read 3")
        // The same account; the other process has removed the tombstone.
        story.on(.storeRead(3, stored(7)), "forget tombstone", "unlock 3", "read 4")
        story.on(.storeRead(4, stored(7)), "answer 1 rt_7")
    }

    @Test func aTombstoneThatWasReadBesideALaterSignInDoesNotEndIt() {
        let tombstone = Tombstone(at: start, revokes: true, [credential(1)])
        var story = Story()
        story.on(.accountAsked(1), "read 1")
        story.on(.storeRead(1, .success(.init(credential: credential(7), tombstone: tombstone))), "lock 2")
        story.on(.lockAnswered(2, nil), "read 2")
        story.on(.storeRead(2, stored(7)), "forget tombstone", "unlock 2", "read 3")
        story.on(.storeRead(3, stored(7)), "answer 1 rt_7")
    }

    @Test func anExportedCredentialIsNotRevokedLater() throws {
        // By the next process.
        let written = Tombstone(at: start, revokes: false, [credential(1)])
        let tombstone = try #require(Tombstone(serialized: written.serialized()))
        let marked = Result<CredentialLifecycle.Stored, CredentialStoreError>.success(
            .init(credential: credential(1), tombstone: tombstone))
        var story = Story()
        story.on(.accountAsked(1), "read 1")
        story.on(.storeRead(1, marked), "lock 2")
        story.on(.lockAnswered(2, nil), "read 2")
        story.on(.storeRead(2, marked), "delete 2")
        story.on(.storeDeleted(2, nil), "forget tombstone", "unlock 2", "answer 1 missing")
        // By a sign-in, in this process or the next one.
        for (first, found) in [(refusedSignOut(revoking: false, isTombstoneKept: false), stored(1)), (Story(), marked)]
        {
            story = first
            let job = story.lifecycle.snapshot.signOuts == 0 ? 1 : 3
            story.on(.signInCompleted(credential(7), after: story.lifecycle.snapshot.signOuts, 5), "lock \(job)")
            story.on(.lockAnswered(job, nil), "read \(job)")
            story.on(.storeRead(job, found), "save \(job) rt_7 verified")
            story.on(.storeSaved(job, nil), "forget tombstone", "answer 5 rt_7", "unlock \(job)")
        }
    }

    @Test func aSignOutThatTheStoreRefusedIsMadeUpFor() {
        for (revoking, late, expected) in [
            (true, stored(2), ["revoke rt_2", "forget tombstone"]), (false, stored(2), ["forget tombstone"]),
        ] {
            var story = Story.signedIn(endingIn: 7200)
            story.on(.signedOut(revoking: revoking, 9), "lock 2")
            story.on(.lockAnswered(2, nil), "read 2")
            story.on(.storeRead(2, stored(1)), "delete 2")
            let revoked = revoking ? "[rt_1]" : "[]"
            story.on(.storeDeleted(2, .locked("l")), "tombstone", "signed out 9 store \(revoked)", "unlock 2")
            story.on(.accountAsked(1), "lock 3")
            story.on(.lockAnswered(3, nil), "read 3")
            story.on(.storeRead(3, late), "delete 3")
            let actions = story.actions(.storeDeleted(3, nil))
            #expect(actions.sorted() == (expected + ["answer 1 missing", "unlock 3"]).sorted())
        }
    }

    @Test func aTombstoneOfAnEarlierProcessIsASignOut() {
        let tombstone = Tombstone(at: start, revokes: true, [credential(1)])
        let marked = CredentialLifecycle.Stored(credential: credential(2), tombstone: tombstone)
        var story = Story()
        story.on(.accountAsked(1), "read 1")
        story.on(.storeRead(1, .success(marked)), "lock 2")
        story.on(.lockAnswered(2, nil), "read 2")
        story.on(.storeRead(2, .success(marked)), "delete 2")
        let actions = story.actions(.storeDeleted(2, nil))
        #expect(Set(actions) == ["forget tombstone", "revoke rt_2", "unlock 2", "answer 1 missing"])
        // Another account has signed in since: it stays.
        story = Story()
        story.on(.accountAsked(1), "read 1")
        let later = credential(9, account: "account-9")
        story.on(
            .storeRead(1, .success(.init(credential: later, tombstone: tombstone))), "forget tombstone",
            "answer 1 rt_9")
    }

    // MARK: Signing in

    @Test func aSignInReplacesWhatTheStoreHoldsNotWhatIsRemembered() {
        var story = Story.signedIn(endingIn: 7200)
        story.on(.signInCompleted(credential(7), after: 0, 5), "lock 2")
        story.on(.lockAnswered(2, nil), "read 2")
        story.on(.storeRead(2, stored(2)), "save 2 rt_7 verified")
        story.on(.storeSaved(2, nil), "revoke rt_2", "forget tombstone", "answer 5 rt_7", "unlock 2")
    }

    @Test func aSignInThatFailsPutsBackWhatTheStoreHeld() {
        for (found, expected) in [(stored(7), "save 2 rt_2"), (stored(3), "revoke rt_7")] {
            for isCancelled in [true, false] {
                var story = Story.signedIn(endingIn: 7200)
                story.on(.signInCompleted(credential(7), after: 0, 5), "lock 2")
                story.on(.lockAnswered(2, nil), "read 2")
                story.on(.storeRead(2, stored(2)), "save 2 rt_7 verified")
                if isCancelled { story.on(.signInCancelled(5)) }
                story.on(.storeSaved(2, isCancelled ? nil : .notVerified), "read 2")
                #expect(story.actions(.storeRead(2, found)).first == expected)
            }
        }
    }

    @Test func aSignOutDuringASignInOrAnImportWins() {
        for after in [0, nil] {
            var story = Story()
            story.on(.signInCompleted(credential(7), after: after, 5), "lock 1")
            story.on(.lockAnswered(1, nil), "read 1")
            story.on(.storeRead(1, .success(.init())), "save 1 rt_7 verified")
            story.on(.signedOut(revoking: true, 9), "lock 2")
            story.on(.storeSaved(1, nil), "read 1")
            story.on(.storeRead(1, stored(7)), "delete 1")
            // An imported credential is another machine's too.
            let actions = story.actions(.storeDeleted(1, nil))
            #expect(actions == (after == nil ? [] : ["revoke rt_7"]) + ["answer 5 cancelled", "unlock 1"])
        }
    }

    @Test func aSignInThatFailsLeavesALaterSignInOfAnotherProcessAlone() {
        var story = refusedSignOut(isTombstoneKept: true)
        story.on(.signInCompleted(credential(7), after: 1, 5), "lock 3")
        story.on(.lockAnswered(3, nil), "read 3")
        story.on(.storeRead(3, stored(8)), "save 3 rt_7 verified")
        story.on(.storeSaved(3, .locked("l")), "read 3")
        story.on(.storeRead(3, stored(8)), "revoke rt_7", "answer 5 store", "unlock 3")
    }

    @Test func anotherServicesCredentialIsNeitherReplacedNorDeleted() {
        let foreign = Result<CredentialLifecycle.Stored, CredentialStoreError>.failure(.foreign("f"))
        var story = Story()
        story.on(.signInCompleted(credential(7), after: 0, 5), "lock 1")
        story.on(.lockAnswered(1, nil), "read 1")
        story.on(.storeRead(1, foreign), "revoke rt_7", "answer 5 store", "unlock 1")
        story.on(.signedOut(revoking: true, 9), "lock 2")
        story.on(.lockAnswered(2, nil), "read 2")
        story.on(.storeRead(2, foreign), "forget tombstone", "signed out 9 []", "unlock 2")
    }

    // MARK: Settling

    @Test func aRenewalThatOnlyWaitsForAnotherProcessIsNotWaitedFor() {
        var story = Story.signedIn(endingIn: -1)
        story.on(.requestNeedsToken(1), "lock 2")
        story.on(.settlingAsked(8), "answer 8 nothing")
        story.on(.lockAnswered(2, nil), "read 2")
        story.on(.settlingAsked(9))
        story.on(.storeRead(2, stored(2)), "unlock 2", "answer 1 rt_2", "answer 9 nothing")
    }

    // MARK: Two processes

    /// Two lives over one store, one lock and one server that takes every refresh token once, in many orders.
    @Test func noOrderUsesARefreshTokenTwiceOrLosesACaller() {
        for seed in 0..<200 { World(seed: UInt64(seed)).run() }
    }
}

/// A store, a lock, a server and two processes; one action at a time is carried out, chosen by chance.
private struct World {
    var random: SplitMix
    var lives = [CredentialLifecycle(), CredentialLifecycle()]
    var todo: [(process: Int, action: CredentialLifecycle.Action)] = []
    var store: Credential? = credential(1, endingIn: -1)
    var lockHolder: [Int]?
    var serial = 1
    var used: Set<Int> = []
    var answered: [String] = []

    init(seed: UInt64) { random = SplitMix(state: seed) }

    mutating func report(_ process: Int, _ input: CredentialLifecycle.Input) {
        let moment = CredentialLifecycle.Moment(now: start, elapsed: .zero)
        todo += lives[process].handle(input, at: moment).map { (process, $0) }
    }

    consuming func run() {
        var asked = 0
        let signsOut = random.next() % 3 == 0
        for process in 0...1 {
            for waiter in 1...2 {
                report(process, waiter == 1 ? .requestNeedsToken(waiter) : .refreshAsked(waiter))
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
            let (process, action) = todo.remove(at: Int(random.next() % UInt64(todo.count)))
            perform(process, action)
        }
        #expect(todo.isEmpty, "it never ends")
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
        case .readStore(let job): report(process, .storeRead(job, .success(.init(credential: store))))
        case .save(let job, let credential, _):
            store = credential
            report(process, .storeSaved(job, nil))
        case .delete(let job):
            store = nil
            report(process, .storeDeleted(job, nil))
        case .refresh(let job, let token):
            let number = Int(token.text.dropFirst(3)) ?? 0
            #expect(used.insert(number).inserted, "a refresh token was used twice")
            serial += 1
            report(process, .tokensRefreshed(job, tokens(serial)))
        case .revoke: report(process, .revocationEnded)
        case .answer, .answerSignOut: answered.append("\(process) \(action.words)")
        case .startPatience, .writeTombstone, .removeTombstone: break
        }
    }
}

private struct SplitMix {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var value = (state ^ (state >> 30)) &* 0xBF58_476D_1CE4_E5B9
        value = (value ^ (value >> 27)) &* 0x94D0_49BB_1331_11EB
        return value ^ (value >> 31)
    }
}

private func credential(_ serial: Int, endingIn seconds: TimeInterval = 7200, account: String? = nil) -> Credential {
    var seed = person(endingIn: seconds, serial: serial)
    seed.refreshToken = "rt_\(serial)"
    if let account { seed.accountID = account }
    guard let credential = try? Credential(serialized: seed.credential, for: CredentialOrigin(Service.endpoints)) else {
        preconditionFailure("the seed is a credential")
    }
    return credential
}

private func stored(
    _ serial: Int, endingIn seconds: TimeInterval = 7200
) -> Result<CredentialLifecycle.Stored, CredentialStoreError> {
    .success(.init(credential: credential(serial, endingIn: seconds)))
}

private func tokens(_ serial: Int) -> Result<TokenAnswer, CredentialFailure> {
    var seed = person(endingIn: 7200, serial: serial)
    seed.refreshToken = "rt_\(serial)"
    return Result { try TokenAnswer(IssuerAnswer(status: 200, body: Array(seed.tokenAnswer.utf8))) }
        .mapError { _ in .missingCredential }
}

extension CredentialLifecycle.Action {
    fileprivate var words: String {
        switch self {
        case .acquireLock(let job, _): "lock \(job)"
        case .releaseLock(let job): "unlock \(job)"
        case .readStore(let job): "read \(job)"
        case .save(let job, let credential, let isVerified):
            "save \(job) \(name(credential))\(isVerified ? " verified" : "")"
        case .delete(let job): "delete \(job)"
        case .refresh(let job, let token): "refresh \(job) \(token.text)"
        case .revoke(let credential): "revoke \(name(credential))"
        case .answer(let waiter, .success(let answer)):
            "answer \(waiter) \(answer.held.map { name($0.credential) } ?? "nothing")\(answer.isFromServer ? " new" : "")"
        case .answer(let waiter, .failure(let failure)): "answer \(waiter) \(failure.word)"
        case .answerSignOut(let waiter, let error, let credentials):
            "signed out \(waiter)\(error == nil ? "" : " store") [\(credentials.map(name).joined(separator: " "))]"
        case .startPatience(let waiter, _): "patience \(waiter)"
        case .writeTombstone: "tombstone"
        case .removeTombstone: "forget tombstone"
        }
    }

    private func name(_ credential: Credential) -> String { credential.refreshToken?.text ?? "none" }
}

extension CredentialFailure {
    fileprivate var word: String {
        switch self {
        case .missingCredential: "missing"
        case .rejected: "rejected"
        case .missingAccountID: "account"
        case .soft: "soft"
        case .store: "store"
        case .cancelled: "cancelled"
        }
    }
}
