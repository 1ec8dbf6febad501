import ChappieAuth
import Foundation
import Testing

@testable import ChappieKeychainLinux

/// The limits of a call, on lanes that no bus belongs to.
struct KeyringLaneTests {
    private let short = Duration.milliseconds(50)

    @Test func aLongerLimitTakesThePlaceOfTheFirst() async throws {
        let number = try await KeyringLane().perform(within: short) { turn in
            turn.allow(.seconds(60))
            // On the lane's own thread, which may block.
            usleep(200_000)
            return 7
        }
        #expect(number == 7)
    }

    @Test func aShorterLimitTakesThePlaceOfTheFirst() async throws {
        await #expect(throws: CredentialStoreError.timedOut(short)) {
            try await KeyringLane().perform(within: .seconds(60)) { turn in
                turn.allow(short)
                while !turn.cancellation.isCancelled { usleep(1000) }
            }
        }
    }

    @Test func waitingForTheTurnCounts() async throws {
        let lane = KeyringLane()
        let (started, release) = (AsyncStream<Void>.makeStream(), DispatchSemaphore(value: 0))
        async let first: Void = lane.perform(within: .seconds(60)) { _ in
            started.continuation.yield()
            release.wait()
        }
        for await _ in started.stream { break }
        await #expect(throws: CredentialStoreError.timedOut(short)) {
            try await lane.perform(within: short) { _ in Issue.record("worked although the time was up") }
        }
        release.signal()
        try await first
    }

    @Test func aCallThatIsCancelledWhileItWorksEndsAtOnceAndItsWorkIsToldTo() async throws {
        let lane = KeyringLane()
        let (started, ended) = (AsyncStream<Void>.makeStream(), AsyncStream<Void>.makeStream())
        let task = Task {
            try await lane.perform(within: .seconds(60)) { turn in
                started.continuation.yield()
                while !turn.cancellation.isCancelled { usleep(1000) }
                ended.continuation.yield()
            }
        }
        for await _ in started.stream { break }
        task.cancel()
        await #expect(throws: CredentialStoreError.failed("the call was cancelled")) { try await task.value }
        for await _ in ended.stream { break }
        #expect(try await lane.perform(within: .seconds(60)) { _ in 7 } == 7)
    }

    @Test func aCallThatIsCancelledWhileItWaitsForItsTurnEndsAtOnce() async throws {
        let lane = KeyringLane()
        let (started, release) = (AsyncStream<Void>.makeStream(), DispatchSemaphore(value: 0))
        async let first: Void = lane.perform(within: .seconds(60)) { _ in
            started.continuation.yield()
            release.wait()
        }
        for await _ in started.stream { break }
        let task = Task {
            try await lane.perform(within: .seconds(60)) { _ in Issue.record("worked although nobody waits") }
        }
        task.cancel()
        await #expect(throws: CredentialStoreError.failed("the call was cancelled")) { try await task.value }
        release.signal()
        try await first
    }

    @Test(
        arguments: [
            (Array(#"{"token":"ü"}"#.utf8), "application/json"),
            (Array("{\n}".utf8), "application/octet-stream"), (Array("text".utf8), "application/octet-stream"),
            ([0x7B, 0xFF], "application/octet-stream"), ([], "application/octet-stream"),
        ] as [([UInt8], String)])
    func onlyPlainJSONIsCalledJSON(bytes: [UInt8], type: String) {
        #expect(bytes.withUnsafeBufferPointer { CredentialItem.contentType(of: $0) } == type)
    }
}
