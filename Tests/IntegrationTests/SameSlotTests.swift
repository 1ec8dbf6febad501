import ChappieAuth
import ChappieClient
import ChappieCore
import ChappieSimulator
import Testing

/// One slot, one client, and another account that signs in to it.
@Suite(.timeLimit(.minutes(3))) struct SameSlotTests {
    /// Where a new account comes from, and how its turns travel.
    struct Case: Sendable, CustomTestStringConvertible {
        let signsOut: Bool
        let policy: ChappieStreamingTransportPolicy
        var testDescription: String {
            "\(signsOut ? "after a sign-out" : "in the other's place"), \(policy.prefersWebSocket ? "WebSocket" : "SSE")"
        }

        static let all = [true, false].flatMap { signsOut in
            [Tenant.webSocketOnly, .httpSSEOnly].map { Case(signsOut: signsOut, policy: $0) }
        }
    }

    @Test(arguments: Case.all)
    func anotherAccountTakesNothingOver(_ example: Case) async throws {
        try await Tenancy.run(signedIn: false) { tenancy in
            let slot = tenancy.first
            let (earlier, later) = (tenancy.first.account, tenancy.second.account)
            try await slot.signIn(as: earlier)
            let client = slot.client(example.policy)
            for turn in 1...2 { _ = try await client.send("reply: earlier \(turn)") }
            #expect(try await client.models().map(\.slug) == earlier.models)
            if example.signsOut { try await slot.session.signOutAndRevoke() }
            try await slot.signIn(as: later)
            for turn in 1...2 {
                let seen = try await ObservedTurn(client.stream("reply: later \(turn)"))
                #expect(seen.text == "later \(turn)")
                for limits in seen.limits {
                    #expect(limits.primary?.usedPercent == later.usage?.primaryUsedPercent)
                }
            }
            #expect(try await client.models().map(\.slug) == later.models)
            let turns = try ReceivedTurn.all(tenancy.simulator)
            try #require(turns.count == 4)
            #expect(turns.map(\.accountID) == [earlier.id, earlier.id, later.id, later.id])
            #expect(turns[0].sessionID == turns[1].sessionID)
            #expect(turns[1].sessionID != turns[2].sessionID)
            #expect(turns[2].sessionID == turns[3].sessionID)
            #expect(turns[2].previousResponseID == nil)
            #expect(turns[2].inputCount == turns[0].inputCount)
            for turn in turns[2...] { #expect(!turn.body.serialized().contains("earlier")) }
            if example.policy.prefersWebSocket {
                #expect(turns[1].previousResponseID != nil)
                #expect(turns[3].previousResponseID != nil)
                #expect(turns[1].webSocket != turns[2].webSocket)
                let old = try #require(turns[0].webSocket)
                let deadline = ContinuousClock.now + .seconds(30)
                while tenancy.isOpen(old), ContinuousClock.now < deadline { await Task.yield() }
                #expect(!tenancy.isOpen(old))
            }
            let tags = tenancy.requests("/backend-api/codex/models").map { $0.header("if-none-match") }
            #expect(tags == [nil, nil])
        }
    }

    @Test func theSameAccountGoesOnWithItsConversation() async throws {
        try await Tenancy.run(signedIn: false) { tenancy in
            let slot = tenancy.first
            try await slot.signIn()
            let client = slot.client()
            _ = try await client.send("reply: before")
            try await slot.session.signOutAndRevoke()
            try await slot.signIn()
            _ = try await client.send("reply: after")
            let turns = try ReceivedTurn.all(tenancy.simulator)
            try #require(turns.count == 2)
            #expect(turns[0].sessionID == turns[1].sessionID)
            #expect(turns[0].webSocket != turns[1].webSocket, "a connection belongs to a sign-in")
            #expect(turns[1].previousResponseID == nil)
            #expect(turns[1].body.serialized().contains("before"))
        }
    }
}
