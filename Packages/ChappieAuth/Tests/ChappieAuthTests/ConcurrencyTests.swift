import Testing

@testable import ChappieAuth

@Suite struct ConcurrencyTests {
    @Test func aFlightGivesItsResultToAllButTheCancelled() async throws {
        let flight = Flight<Int>()
        let tasks = (0..<20).map { _ in Task { try await flight.value() } }
        for task in tasks.prefix(10) { task.cancel() }
        for task in tasks.prefix(10) { await #expect(throws: CancellationError.self) { try await task.value } }
        flight.land(.success(7))
        flight.land(.success(8))
        for task in tasks.dropFirst(10) { #expect(try await task.value == 7) }
        #expect(try await flight.value() == 7)
    }

    @Test func cancellingAndLandingAtTheSameTimeLosesNobody() async {
        for _ in 0..<200 {
            let flight = Flight<Int>()
            let task = Task { try await flight.value() }
            async let landing: Void = flight.land(.success(1))
            task.cancel()
            await landing
            let result = await task.result
            if case .failure(let error) = result { #expect(error is CancellationError) }
        }
    }

    @Test func aBroadcastMissesNothingAndRepeatsNothing() async {
        let broadcast = Broadcast(0)
        let streams = (0..<4).map { _ in broadcast.updates() }
        let writer = Task.detached {
            for value in 1...1000 {
                broadcast.set(value)
                broadcast.set(value)
            }
        }
        for stream in streams {
            var seen: [Int] = []
            for await value in stream {
                seen.append(value)
                if value == 1000 { break }
            }
            #expect(seen == Array(0...1000))
        }
        await writer.value
    }

    @Test func aBroadcastThatGoesEndsItsStreams() async {
        var broadcast: Broadcast<Int>? = Broadcast(1)
        let stream = broadcast?.updates()
        broadcast = nil
        var seen: [Int] = []
        for await value in stream ?? AsyncStream(unfolding: { nil }) { seen.append(value) }
        #expect(seen == [1])
    }

    @Test func theGateLetsOneThroughAtATimeInOrder() async {
        let gate = StoreGate()
        let order = Broadcast<[Int]>([])
        await gate.enter()
        var tasks: [Task<Void, Never>] = []
        for index in 0..<20 {
            tasks.append(
                Task {
                    await gate.enter()
                    order.update { $0.append(index) }
                    gate.leave()
                })
        }
        gate.leave()
        for task in tasks { await task.value }
        #expect(order.value.sorted() == Array(0..<20))
        await gate.enter()
        gate.leave()
    }

    @Test func anEarlierEpochCanNotPublish() {
        let board = StatusBoard()
        board.publish(.signedIn(ChappieAccountInfo(), expiresAt: nil), in: 0)
        let signedOut = board.signOut()
        #expect(board.publish(.signedIn(ChappieAccountInfo(), expiresAt: nil), in: 0) == nil)
        #expect(board.snapshot == signedOut)
        #expect(signedOut.sequence == 2)
        #expect(board.publish(.signedOut, in: 1)?.sequence == 2, "the same status again is no change")
    }
}
