@_spi(ChappieInternals) import ChappieAuth
import ChappieClient
import ChappieCore
import ChappieFiles
import ChappieHTTP
import ChappieSimulatorServer
import ChappieTesting
import HTTPTypes
import Testing

/// Two accounts in one process, and one slot in which two accounts follow each other, over real sockets: nothing of one
/// reaches the other.
@Suite(.timeLimit(.minutes(3))) struct AccountTests {
    @Test func manyTurnsOfBothAtOnceStayApart() async throws {
        let turns = 6
        try await Loopback.run(signedIn: 2) { loopback in
            let conversations = loopback.tenants.flatMap { tenant in
                ["websocket": Tenant.webSocketOnly, "events": .httpSSEOnly].map { name, policy in
                    (mark: "\(tenant.account.id)-\(name)", tenant: tenant, client: tenant.client(policy))
                }
            }
            var responses: [String: [String]] = [:]
            for turn in 1...turns {
                // All four at once, so that every round mixes accounts and transports.
                try await withThrowingTaskGroup(of: (String, String).self) { group in
                    for (mark, tenant, client) in conversations {
                        group.addTask {
                            let seen = await SeenTurn(client.stream("reply: \(mark) says \(turn)"))
                            #expect(seen.text == "\(mark) says \(turn)")
                            #expect(!seen.limits.isEmpty)
                            for limits in seen.limits {
                                #expect(limits.primary?.usedPercent == tenant.account.usage?.primaryUsedPercent)
                                #expect(limits.secondary?.usedPercent == tenant.account.usage?.secondaryUsedPercent)
                                if let plan = limits.plan { #expect(plan.rawValue == tenant.account.plan) }
                            }
                            return (mark, try #require(seen.response).id)
                        }
                    }
                    for try await (mark, id) in group { responses[mark, default: []].append(id) }
                }
            }
            let received = try ReceivedTurn.all(loopback.simulator)
            #expect(received.count == 4 * turns)
            #expect(Set(received.map(\.sessionID)).count == 4)
            #expect(Set(responses.values.joined()).count == 4 * turns)
            for (mark, tenant, _) in conversations {
                let own = received.filter { $0.question.hasPrefix("reply: \(mark) ") }
                #expect(own.map(\.question) == (1...turns).map { "reply: \(mark) says \($0)" })
                #expect(Set(own.map(\.accountID)) == [tenant.account.id])
                #expect(Set(own.map(\.sessionID)).count == 1)
                #expect(Set(own.map(\.webSocket)).count == 1)
                let chain: [String?] =
                    own.first?.webSocket == nil
                    ? Array(repeating: nil, count: turns) : [nil] + (responses[mark] ?? []).dropLast()
                #expect(own.map(\.previousResponseID) == chain)
                for turn in own {
                    let said = turn.body.serialized()
                    for other in conversations where other.mark != mark { #expect(!said.contains(other.mark)) }
                }
            }
        }
    }

    @Test func modelsLimitsAndNamesAreEachAccountsOwn() async throws {
        try await Loopback.run(signedIn: 2) { loopback in
            let clients = loopback.tenants.map { $0.client() }
            for _ in 1...3 {
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for (tenant, client) in zip(loopback.tenants, clients) {
                        group.addTask {
                            #expect(try await client.models().map(\.slug) == tenant.account.models)
                            #expect(try await client.accountInfo().email == tenant.account.email)
                            let usage = try await client.usageLimits()
                            #expect(usage.plan?.rawValue == tenant.account.plan)
                            #expect(usage.primary?.usedPercent == tenant.account.usage?.primaryUsedPercent)
                        }
                    }
                    try await group.waitForAll()
                }
            }
            var tags: [String: [String?]] = [:]
            for request in loopback.requests("/backend-api/codex/models") {
                let accountID = try ReceivedTurn.accountID(ofToken: try #require(request.header("authorization")))
                #expect(request.header("chatgpt-account-id") == accountID)
                tags[accountID, default: []].append(request.header("if-none-match"))
            }
            let sent = try loopback.tenants.map { try #require(tags[$0.account.id]) }
            for tags in sent { #expect(tags == [nil, tags[1], tags[1]] && tags[1] != nil) }
            #expect(sent[0][1] != sent[1][1])
        }
    }

    @MainActor
    @Test func signingOneOutLeavesTheOtherItsConnection() async throws {
        try await Loopback.run(signedIn: 0) { loopback in
            let (first, second) = (loopback.tenants[0], loopback.tenants[1])
            let (firstStates, secondStates) = (first.session.stateUpdates, second.session.stateUpdates)
            // At the same time, so that each has the chance to take the other's code or credential.
            async let firstCode = first.signIn()
            async let secondCode = second.signIn()
            let codes = [try await firstCode, try await secondCode]
            #expect(first.session.accountInfo?.email == first.account.email)
            #expect(second.session.accountInfo?.email == second.account.email)
            let (leaving, staying) = (first.client(), second.client())
            _ = try await leaving.send("reply: one")
            _ = try await staying.send("reply: two")
            try await first.session.signOutAndRevoke()
            await #expect(throws: ChappieClientError.missingCredential) { try await leaving.send("reply: never") }
            #expect(first.stored == nil)
            #expect(try await staying.send("reply: three") == "three")
            let turns = try ReceivedTurn.all(loopback.simulator)
            #expect(turns.map(\.question) == ["reply: one", "reply: two", "reply: three"])
            #expect(turns.map(\.accountID) == [first, second, second].map(\.account.id))
            #expect(turns[1].webSocket == turns[2].webSocket)
            #expect(turns[2].previousResponseID != nil)
            #expect(loopback.requests("/oauth/revoke").count == 1)
            try await second.session.signOutAndRevoke()
            #expect(await names(firstStates) == ["signedOut", "signingIn", codes[0], "signedIn", "signedOut"])
            #expect(await names(secondStates) == ["signedOut", "signingIn", codes[1], "signedIn", "signedOut"])
        }
    }

    /// A lock that tells when it is asked for.
    private struct ReportingLock: CredentialLock, CredentialNotes {
        let lock: any CredentialLock
        let isAskedFor = ScriptedGate()

        func acquire(
            _ slot: CredentialSlot, within limit: Duration
        ) async throws(CredentialStoreError) -> CredentialLockHold {
            isAskedFor.open()
            try? await isAskedFor.pass()
            return try await lock.acquire(slot, within: limit)
        }
    }

    @Test func aRefreshThatHasToWaitHoldsUpNobodyElse() async throws {
        try await Loopback.run(signedIn: 2) { loopback in
            let (first, second) = (loopback.tenants[0], loopback.tenants[1])
            let tokens = try [first, second].map { try #require($0.refreshToken) }
            // As if another process were renewing the first account's tokens.
            var hold: CredentialLockHold? = try await loopback.locks.acquire(
                first.configuration.credentialSlot, within: .seconds(5))
            let lock = ReportingLock(lock: loopback.locks)
            let waiting = await ChappieAuthSession(credentials: first.newManager(lock))
            let refresh = Task { try await waiting.refreshAuth() }
            await lock.isAskedFor.reached()
            try await second.session.refreshAuth()
            #expect(try await second.client().send("reply: meanwhile") == "meanwhile")
            #expect(tokens.map(loopback.refreshes) == [0, 1])
            #expect(first.refreshToken == tokens[0])
            withExtendedLifetime(hold) {}
            hold = nil
            try await refresh.value
            #expect(tokens.map(loopback.refreshes) == [1, 1])
            #expect(first.refreshToken != tokens[0])
            #expect(try await first.client().send("reply: at last") == "at last")
        }
    }

    @MainActor
    @Test func `the end of one sign-in changes nothing for the other sign-in`() async throws {
        try await Loopback.run(signedIn: 0) { loopback in
            let (first, second) = (loopback.tenants[0], loopback.tenants[1])
            let (firstStates, secondStates) = (first.session.stateUpdates, second.session.stateUpdates)
            let codes = [try await first.signIn(), try await second.signIn()]
            let staying = second.client()
            _ = try await staying.send("reply: one")
            let secret = second.stored
            // The service ends the first account's sign-in: its access token gets 401, its refresh token as well.
            let body: ChappieJSON = ["token": .string(try #require(first.refreshToken))]
            let revocation = try await loopback.http.send(
                HTTPExchangeRequest(
                    method: .post, url: first.configuration.endpoints.revokeURL,
                    headerFields: [.contentType: "application/json"], body: .init(bytes: body.serializedBytes())))
            #expect(revocation.status == .ok)
            revocation.body.cancel()
            async let other = staying.send("reply: two")
            let refused = await SeenTurn(first.client(.httpSSEOnly).stream("reply: never"))
            if case .reauthenticationRequired? = refused.error {} else { Issue.record("\(refused)") }
            #expect(try await other == "two")
            #expect(first.stored != nil && first.refreshToken == nil)
            #expect(second.stored == secret)
            #expect(second.session.lastError == nil)
            #expect(try await staying.send("reply: three") == "three")
            let own = try ReceivedTurn.all(loopback.simulator).filter { $0.accountID == second.account.id }
            #expect(own.map(\.question) == ["reply: one", "reply: two", "reply: three"])
            #expect(Set(own.map(\.webSocket)).count == 1)
            #expect(loopback.refreshes(with: try #require(second.refreshToken)) == 0)
            for session in [first.session, second.session] { try await session.signOutAndRevoke() }
            #expect(
                await names(firstStates) == [
                    "signedOut", "signingIn", codes[0], "signedIn", "reauthenticationRequired", "signedOut",
                ])
            #expect(await names(secondStates) == ["signedOut", "signingIn", codes[1], "signedIn", "signedOut"])
        }
    }

    /// What a session went through up to the sign-out at its end; a device code stands for itself.
    private func names(_ states: AsyncStream<ChappieAuthState>) async -> [String] {
        var names: [String] = []
        for await state in states {
            switch state {
            case .awaitingDeviceCode(let code, _): names.append(code)
            case .failed(let reason): names.append(reason)
            default: names.append(String("\(state)".prefix { $0 != "(" }))
            }
            if names.count > 1, state == .signedOut { break }
        }
        return names
    }

    // MARK: One slot

    /// After a sign-out, and in the other's place.
    @Test(arguments: [true, false], [Tenant.webSocketOnly, .httpSSEOnly])
    func anotherAccountInTheSlotTakesNothingOver(
        signsOut: Bool, policy: ChappieStreamingTransportPolicy
    ) async throws {
        try await Loopback.run { loopback in
            let slot = loopback.tenants[0]
            let (earlier, later) = (Loopback.accounts[0], Loopback.accounts[1])
            let client = slot.client(policy)
            for turn in 1...2 { _ = try await client.send("reply: earlier \(turn)") }
            #expect(try await client.models().map(\.slug) == earlier.models)
            if signsOut { try await slot.session.signOutAndRevoke() }
            try await slot.signIn(as: later)
            for turn in 1...2 {
                let seen = await SeenTurn(client.stream("reply: later \(turn)"))
                #expect(seen.text == "later \(turn)")
                for limits in seen.limits {
                    #expect(limits.primary?.usedPercent == later.usage?.primaryUsedPercent)
                }
            }
            #expect(try await client.models().map(\.slug) == later.models)
            let turns = try ReceivedTurn.all(loopback.simulator)
            try #require(turns.count == 4)
            #expect(turns.map(\.accountID) == [earlier.id, earlier.id, later.id, later.id])
            #expect(turns[0].sessionID == turns[1].sessionID)
            #expect(turns[1].sessionID != turns[2].sessionID)
            #expect(turns[2].sessionID == turns[3].sessionID)
            #expect(turns[2].previousResponseID == nil)
            #expect(turns[2].inputCount == turns[0].inputCount)
            for turn in turns[2...] { #expect(!turn.body.serialized().contains("earlier")) }
            if let old = turns[0].webSocket {
                #expect(turns[1].previousResponseID != nil)
                #expect(turns[3].previousResponseID != nil)
                #expect(turns[1].webSocket != turns[2].webSocket)
                let isOpen = { loopback.simulator.webSocketConnections.contains { $0.connection == old && $0.isOpen } }
                let deadline = ContinuousClock.now + .seconds(30)
                while isOpen(), ContinuousClock.now < deadline { await Task.yield() }
                #expect(!isOpen())
            }
            // Each account's list is asked for by its first turn, and then again with the tag of its own.
            let tags = loopback.requests("/backend-api/codex/models").map { $0.header("if-none-match") }
            #expect(tags.count == 4 && tags[0] == nil && tags[2] == nil && tags[1] != nil && tags[1] != tags[3])
        }
    }

    @Test func theSameAccountGoesOnWithItsConversation() async throws {
        try await Loopback.run { loopback in
            let slot = loopback.tenants[0]
            let client = slot.client()
            _ = try await client.send("reply: before")
            try await slot.session.signOutAndRevoke()
            try await slot.signIn()
            _ = try await client.send("reply: after")
            let turns = try ReceivedTurn.all(loopback.simulator)
            try #require(turns.count == 2)
            #expect(turns[0].sessionID == turns[1].sessionID)
            #expect(turns[0].webSocket != turns[1].webSocket, "a connection belongs to a sign-in")
            #expect(turns[1].previousResponseID == nil)
            #expect(turns[1].body.serialized().contains("before"))
        }
    }
}
