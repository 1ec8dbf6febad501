@_spi(ChappieInternals) import ChappieCore
import Foundation
import FoundationNetworking
import HTTPTypes
import Synchronization
import TestFixtures
import Testing

@testable import ChappieURLSession

/// An exchange over a task that a test plays: FoundationNetworking's own can't be suspended.
@Suite struct SessionTransferTests {
    private final class PlayedTask: SessionTask {
        private let list = Mutex<[String]>([])
        private let onBegin: @Sendable () -> Void
        var calls: [String] { list.withLock { $0 } }

        /// - Parameter onBegin: what the network does at once.
        init(onBegin: @escaping @Sendable () -> Void = {}) { self.onBegin = onBegin }

        /// Waits for the last call of an exchange that has ended: the reader gets its error a little earlier.
        func callsToTheEnd() async -> [String] {
            while calls.last != "cancel" { await Task.yield() }
            return calls
        }

        func begin() {
            note("begin")
            onBegin()
        }
        func hold() { note("hold") }
        func proceed() { note("proceed") }
        func cancel() { note("cancel") }
        private func note(_ call: String) { list.withLock { $0.append(call) } }
    }

    private let task = PlayedTask()
    private let url: URL

    init() throws { url = try #require(URL(string: "https://host.test/")) }

    private func transfer(bodyBytes: Int = 0, _ deadlines: ChappieDeadlines = .default) -> SessionTransfer {
        SessionTransfer(host: "host.test", bodyBytes: bodyBytes, deadlines: deadlines)
    }

    private func answer(_ status: Int = 200, _ fields: [String: String] = [:]) throws -> HTTPURLResponse {
        try #require(HTTPURLResponse(url: url, statusCode: status, httpVersion: "HTTP/1.1", headerFields: fields))
    }

    @Test func `a slow reader pauses the network and then lets it continue`() async throws {
        let transfer = transfer()
        transfer.received(try answer())
        _ = try await transfer.start(task)
        let half = Data(repeating: 1, count: TransferState.highWaterMark / 2)
        transfer.received(half)
        #expect(task.calls == ["begin"])
        transfer.received(half)
        #expect(task.calls == ["begin", "hold"])
        #expect(try await transfer.nextChunk()?.count == TransferState.highWaterMark)
        #expect(task.calls == ["begin", "hold", "proceed"])
        transfer.received(half)
        transfer.ended(nil, response: nil)
        #expect(try await transfer.nextChunk()?.count == half.count)
        #expect(try await transfer.nextChunk() == nil)
        transfer.cancel()
        #expect(task.calls == ["begin", "hold", "proceed"])
    }

    @Test func eachStageHasItsDeadline() async throws {
        let short = Duration.milliseconds(50)
        let cases:
            [(
                ChappieDeadlines, Int, ChappieTransportError.Stage, @Sendable (SessionTransfer) -> Void
            )] = [
                (ChappieDeadlines(connect: short), 3, .connect, { _ in }),
                (ChappieDeadlines(idle: short), 3, .request, { $0.sentBody(1) }),
                (ChappieDeadlines(responseHead: short), 3, .responseHead, { $0.sentBody(3) }),
                (ChappieDeadlines(responseHead: short), 0, .responseHead, { _ in }),
            ]
        for (deadlines, bodyBytes, stage, play) in cases {
            let transfer = transfer(bodyBytes: bodyBytes, deadlines)
            let task = PlayedTask { play(transfer) }
            let error = await #expect(throws: ChappieTransportError.self) { try await transfer.start(task) }
            #expect(error?.code == .timedOut)
            #expect(error?.stage == stage)
            #expect(error?.host == "host.test")
            #expect(await task.callsToTheEnd() == ["begin", "cancel"])
        }
    }

    @Test func aHeadThatCameKeepsItsOwnDeadlines() async throws {
        let transfer = transfer(ChappieDeadlines(firstByte: .milliseconds(50)))
        let answer = try answer(204)
        let task = PlayedTask { transfer.received(answer) }
        #expect(try await transfer.start(task).status == .noContent)
        let error = await #expect(throws: ChappieTransportError.self) { try await transfer.nextChunk() }
        #expect(error?.stage == .firstByte)
        #expect(await task.callsToTheEnd() == ["begin", "cancel"])
    }

    @Test func `informational heads are dropped, and other heads are checked`() async throws {
        let fields = ["B": "2", "a": "1", "no name": "3", "C": "x\u{7}"]
        let good = transfer()
        good.received(try answer(103, ["early": "1"]))
        good.received(try answer(200, fields))
        let head = try await good.start(task)
        #expect(head.status == .ok)
        #expect(head.headerFields.map { "\($0.name.canonicalName): \($0.value)" } == ["a: 1", "b: 2"])
        for bad in [try answer(101), try answer(200, ["content-length": "2, 3"])] {
            let transfer = transfer()
            transfer.received(bad)
            let error = await #expect(throws: ChappieTransportError.self) { try await transfer.start(task) }
            #expect(error?.code == .protocolViolation && error?.stage == .responseHead)
        }
    }

    @Test func anEndWithoutAHeadIsALoss() async throws {
        let transfer = transfer()
        transfer.ended(nil, response: nil)
        let error = await #expect(throws: ChappieTransportError.self) { try await transfer.start(task) }
        #expect(error?.code == .connectionLost)
        // FoundationNetworking shows a redirect without a location when the task is over.
        let late = self.transfer()
        late.ended(nil, response: try answer(302))
        #expect(try await late.start(task).status == .found)
    }

    @Test func whatComesAfterACancellationIsDropped() async throws {
        let transfer = transfer()
        let reader = Task { try await transfer.start(task) }
        #expect(try await eventually { task.calls == ["begin"] })
        reader.cancel()
        await #expect(throws: CancellationError.self) { try await reader.value }
        transfer.received(try answer())
        transfer.received(Data([1]))
        transfer.ended(URLError(.cancelled), response: nil)
        await #expect(throws: CancellationError.self) { try await transfer.nextChunk() }
        #expect(task.calls == ["begin", "cancel"])
    }

    @Test func `a certificate that no extra authority signed is reported as rejected`() async throws {
        let transfer = transfer(bodyBytes: 3)
        transfer.refusedCertificate()
        transfer.ended(URLError(.cancelled), response: nil)
        let error = await #expect(throws: ChappieTransportError.self) { try await transfer.start(task) }
        #expect(error?.code == .certificateRejected && error?.stage == .tls)
    }
}
