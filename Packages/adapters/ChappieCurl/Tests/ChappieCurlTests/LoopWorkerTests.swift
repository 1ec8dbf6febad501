@_spi(ChappieInternals) import ChappieCore
import FoundationEssentials
import Synchronization
import TestFixtures
import Testing

@_spi(ChappieInternals) @testable import ChappieCurl

@Suite struct LoopWorkerTests {
    /// A connection on which nothing happens after it has been opened.
    private final class QuietMember: NetworkMember {
        let isConnection = true
        private let route: CurlRoute
        private let connected = Atomic(false)

        init(_ route: CurlRoute) { self.route = route }

        /// Whether the connection has been opened, or has failed.
        var isConnected: Bool { connected.load(ordering: .relaxed) }

        func joined(_ handle: EasyHandle) -> Bool {
            handle.connect(route, deadline: .seconds(20))
            return true
        }

        func visited(_ handle: EasyHandle, _ visit: LoopVisit) -> LoopVerdict {
            if visit.isConnected { connected.store(true, ordering: .relaxed) }
            return .stay(until: nil)
        }

        func ended(_ handle: EasyHandle, with result: CurlResult) { connected.store(true, ordering: .relaxed) }
        func loopStopped() {}
    }

    /// One wake-up then serves many slow streams, and a program with few streams does not wait.
    @Test(arguments: [(63, 0), (64, 5)])
    func `a loop rests after its rounds from 64 members on`(count: Int, milliseconds: Int) async throws {
        try #require(CurlGlobal.isReady)
        let listener = try await SilentListener(backlog: count, filled: false)
        defer { listener.close() }
        let url = try #require(URL(string: "ws://127.0.0.1:\(listener.port)"))
        let route = CurlRoute(origin: try Origin(of: url, for: .webSocket))
        let members = (0..<count).map { _ in QuietMember(route) }
        let watch = try #require(EpollSet())
        let worker = LoopWorker(watch: watch)
        defer { worker.end() }
        // The bell ends each sleep and each rest at once.
        func round(with newcomers: [any NetworkMember] = []) -> Int {
            watch.ring()
            worker.work(with: LoopWorker.PendingWork(newcomers: newcomers))
            return worker.rest
        }
        _ = round(with: members)
        while !members.allSatisfy(\.isConnected) { _ = round() }
        // Every second round rests.
        #expect([round(), round()].sorted() == [0, milliseconds])
    }
}
