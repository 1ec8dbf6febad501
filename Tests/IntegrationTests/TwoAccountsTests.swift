import ChappieAuth
import ChappieClient
import ChappieCore
import ChappieHTTP
import ChappieSimulator
import ChappieTesting
import FoundationEssentials
import HTTPTypes
import Testing

/// Two accounts in one process, over real sockets: nothing of one reaches the other.
@Suite(.timeLimit(.minutes(3))) struct TwoAccountsTests {
    private static let turns = 20

    @Test func manyTurnsOfBothAtOnceStayApart() async throws {
        try await Tenancy.run { tenancy in
            let conversations = tenancy.tenants.flatMap { tenant in
                ["websocket": Tenant.webSocketOnly, "events": .httpSSEOnly].map { name, policy in
                    (mark: "\(tenant.account.id)-\(name)", tenant: tenant, client: tenant.client(policy))
                }
            }
            var responses: [String: [String]] = [:]
            for turn in 1...Self.turns {
                // All four at once, so that every round mixes accounts and transports.
                try await withThrowingTaskGroup(of: (String, ObservedTurn).self) { group in
                    for (mark, tenant, client) in conversations {
                        group.addTask {
                            let seen = try await ObservedTurn(client.stream("reply: \(mark) says \(turn)"))
                            #expect(seen.text == "\(mark) says \(turn)")
                            #expect(!seen.limits.isEmpty)
                            for limits in seen.limits {
                                #expect(limits.primary?.usedPercent == tenant.account.usage?.primaryUsedPercent)
                                #expect(limits.secondary?.usedPercent == tenant.account.usage?.secondaryUsedPercent)
                                if let plan = limits.plan { #expect(plan.rawValue == tenant.account.plan) }
                            }
                            return (mark, seen)
                        }
                    }
                    for try await (mark, seen) in group { responses[mark, default: []].append(seen.responseID) }
                }
            }
            let received = try ReceivedTurn.all(tenancy.simulator)
            #expect(received.count == 4 * Self.turns)
            #expect(Set(received.map(\.sessionID)).count == 4)
            #expect(Set(responses.values.joined()).count == 4 * Self.turns)
            for (mark, tenant, _) in conversations {
                let own = received.filter { $0.question.hasPrefix("reply: \(mark) ") }
                #expect(own.map(\.question) == (1...Self.turns).map { "reply: \(mark) says \($0)" })
                #expect(Set(own.map(\.accountID)) == [tenant.account.id])
                #expect(Set(own.map(\.sessionID)).count == 1)
                #expect(Set(own.map(\.webSocket)).count == 1)
                let chain: [String?] =
                    own.first?.webSocket == nil
                    ? Array(repeating: nil, count: Self.turns) : [nil] + (responses[mark] ?? []).dropLast()
                #expect(own.map(\.previousResponseID) == chain)
                for turn in own {
                    let said = turn.body.serialized()
                    for other in conversations where other.mark != mark { #expect(!said.contains(other.mark)) }
                }
            }
        }
    }

    @Test func modelsLimitsAndNamesAreEachAccountsOwn() async throws {
        try await Tenancy.run { tenancy in
            let clients = tenancy.tenants.map { $0.client() }
            for _ in 1...3 {
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for (tenant, client) in zip(tenancy.tenants, clients) {
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
            for request in tenancy.requests("/backend-api/codex/models") {
                let accountID = try ReceivedTurn.accountID(ofToken: try #require(request.header("authorization")))
                #expect(request.header("chatgpt-account-id") == accountID)
                tags[accountID, default: []].append(request.header("if-none-match"))
            }
            let sent = try tenancy.tenants.map { try #require(tags[$0.account.id]) }
            for tags in sent {
                #expect(tags.count == 3)
                #expect(tags[0] == nil)
                #expect(tags[1] != nil)
                #expect(tags[1] == tags[2])
            }
            #expect(sent[0][1] != sent[1][1])
        }
    }

    @MainActor
    @Test func signingOneOutLeavesTheOtherItsConnection() async throws {
        try await Tenancy.run(signedIn: false) { tenancy in
            let (first, second) = (tenancy.first, tenancy.second)
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
            #expect(try await staying.models().map(\.slug) == second.account.models)
            let turns = try ReceivedTurn.all(tenancy.simulator)
            #expect(turns.map(\.question) == ["reply: one", "reply: two", "reply: three"])
            #expect(turns.map(\.accountID) == [first.account.id, second.account.id, second.account.id])
            #expect(turns[1].webSocket == turns[2].webSocket)
            #expect(turns[2].previousResponseID != nil)
            #expect(tenancy.requests("/oauth/revoke").count == 1)
            try await second.session.signOutAndRevoke()
            #expect(await names(firstStates) == ["signedOut", "signingIn", codes[0], "signedIn", "signedOut"])
            #expect(await names(secondStates) == ["signedOut", "signingIn", codes[1], "signedIn", "signedOut"])
        }
    }

    @Test func aRefreshThatHasToWaitHoldsUpNobodyElse() async throws {
        try await Tenancy.run { tenancy in
            let (first, second) = (tenancy.first, tenancy.second)
            let tokens = try [first, second].map { try #require($0.refreshToken) }
            // As if another process were renewing the first account's tokens.
            var hold: CredentialLockHold? = try await tenancy.locks.acquire(
                first.configuration.credentialSlot, within: .seconds(5))
            let lock = ReportingLock(lock: tenancy.locks)
            let waiting = await ChappieAuthSession(credentials: first.newManager(lock))
            let refresh = Task { try await waiting.refreshAuth() }
            await lock.isAskedFor.reached()
            try await second.session.refreshAuth()
            #expect(try await second.client().send("reply: meanwhile") == "meanwhile")
            #expect(tokens.map(tenancy.refreshes) == [0, 1])
            #expect(first.refreshToken == tokens[0])
            withExtendedLifetime(hold) {}
            hold = nil
            try await refresh.value
            #expect(tokens.map(tenancy.refreshes) == [1, 1])
            #expect(first.refreshToken != tokens[0])
            #expect(try await first.client().send("reply: at last") == "at last")
        }
    }

    @MainActor
    @Test func theEndOfOneSignInChangesNothingForTheOther() async throws {
        try await Tenancy.run(signedIn: false) { tenancy in
            let (first, second) = (tenancy.first, tenancy.second)
            let (firstStates, secondStates) = (first.session.stateUpdates, second.session.stateUpdates)
            let codes = [try await first.signIn(), try await second.signIn()]
            let staying = second.client()
            _ = try await staying.send("reply: one")
            let secret = second.stored
            // The service ends the first account's sign-in: its access token gets 401, its refresh token as well.
            let body: ChappieJSON = ["token": .string(try #require(first.refreshToken))]
            let revocation = try await tenancy.http.send(
                HTTPExchangeRequest(
                    method: .post, url: first.configuration.endpoints.profile.revokeURL,
                    headerFields: [.contentType: "application/json"], body: .init(bytes: body.serializedBytes())))
            #expect(revocation.status == .ok)
            revocation.body.cancel()
            async let other = staying.send("reply: two")
            await #expect {
                try await first.client(.httpSSEOnly).send("reply: never")
            } throws: { error in
                if case ChappieClientError.reauthenticationRequired? = error as? ChappieClientError {
                    true
                } else {
                    false
                }
            }
            #expect(try await other == "two")
            #expect(first.stored == nil)
            #expect(second.stored == secret)
            #expect(second.session.lastError == nil)
            #expect(try await staying.send("reply: three") == "three")
            let own = try ReceivedTurn.all(tenancy.simulator).filter { $0.accountID == second.account.id }
            #expect(own.map(\.question) == ["reply: one", "reply: two", "reply: three"])
            #expect(Set(own.map(\.webSocket)).count == 1)
            #expect(tenancy.refreshes(with: try #require(second.refreshToken)) == 0)
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
            case .signedOut: names.append("signedOut")
            case .signingIn: names.append("signingIn")
            case .awaitingDeviceCode(let code, _): names.append(code)
            case .signedIn: names.append("signedIn")
            case .reauthenticationRequired: names.append("reauthenticationRequired")
            case .failed(let reason): names.append(reason)
            }
            if names.count > 1, names.last == "signedOut" { break }
        }
        return names
    }
}
