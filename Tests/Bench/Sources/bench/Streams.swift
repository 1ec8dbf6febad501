import ChappieClient
import ChappieCore
import ChappieSDK
import Foundation
import Synchronization

/// The cost of many slow answers at the same time: memory, descriptors, processor time and threads.
struct Streams {
    let origin: URL
    let transport: ChappieStreamingTransportPolicy
    let count: Int

    /// `bench streams ORIGIN COUNT sse|websocket`. The answers have 80 deltas each, and the service sends them slowly.
    static func measure(_ arguments: [String]) async throws {
        guard arguments.count == 3, let origin = URL(string: arguments[0]), let count = Int(arguments[1]) else {
            fatalError("usage: bench streams ORIGIN COUNT sse|websocket")
        }
        let transport: ChappieStreamingTransportPolicy =
            arguments[2] == "sse" ? .httpSSEOnly : ChappieStreamingTransportPolicy(fallsBackToHTTPSSE: false)
        try await Streams(origin: origin, transport: transport, count: count).measure()
    }

    private static let deltas = 80

    private func configuration(of user: Int) -> ChappieConfiguration {
        ChappieConfiguration(
            keychainService: "com.example.streams", keychainAccount: "user-\(user)",
            endpoints: ChappieEndpoints(issuer: origin, backend: origin.appending(path: "backend-api")))
    }

    private func measure() async throws {
        let before = Usage.now
        for user in 0..<count {
            try await Chappie.loadedAuthSession(configuration: configuration(of: user), store: .memory).signIn { _ in }
        }
        let signedIn = Usage.now
        let counts = Counts()
        let burst = try await withThrowingTaskGroup(of: Void.self, returning: Measured.self) { group in
            for user in 0..<count {
                group.addTask {
                    let client = Chappie.client(
                        configuration: configuration(of: user), store: .memory, streamingTransportPolicy: transport)
                    do {
                        var isFirst = true
                        for try await event in client.stream("repeat \(Self.deltas) words") {
                            guard case .textDelta(let text) = event else { continue }
                            if isFirst { counts.started.add(1, ordering: .relaxed) }
                            isFirst = false
                            // Each delta of the service is a word with a space, and deltas may be joined.
                            counts.received.add(text.utf8.count { $0 == UInt8(ascii: " ") }, ordering: .relaxed)
                        }
                    } catch {
                        if counts.failed.add(1, ordering: .relaxed).newValue == 1 {
                            FileHandle.standardError.write(Data("the first error: \(error)\n".utf8))
                        }
                    }
                    counts.ended.add(1, ordering: .relaxed)
                }
            }
            var threads = 0
            func wait(until isReached: () -> Bool) async throws {
                while !isReached() {
                    // The number of threads is sampled, because nothing reports its maximum.
                    threads = max(threads, Usage.threads)
                    try await Task.sleep(for: .milliseconds(100))
                }
            }
            try await wait { counts.started.load(ordering: .relaxed) + counts.failed.load(ordering: .relaxed) == count }
            let burst = threads
            // The middle of the answers: every one has begun, and few have ended.
            let (begin, first) = (Usage.now, counts.received.load(ordering: .relaxed))
            threads = 0
            let enough = min(count * Self.deltas * 9 / 10, first + count * 30)
            try await wait {
                counts.received.load(ordering: .relaxed) >= enough || counts.ended.load(ordering: .relaxed) == count
            }
            let (end, last) = (Usage.now, counts.received.load(ordering: .relaxed))
            let measured = Measured(
                burst: burst, streaming: threads, begin: begin, end: end, deltas: last - first)
            try await group.waitForAll()
            return measured
        }
        func mebibytes(_ bytes: Int) -> Double { rounded(Double(bytes) / Double(count) / 1_048_576) }
        print(
            #"{"streams": \#(count), "mebibytes_each": \#(mebibytes(burst.end.memory - before.memory)), "#
                + #""sign_in_mebibytes_each": \#(mebibytes(signedIn.memory - before.memory)), "#
                + #""descriptors_each": \#(rounded(Double(burst.end.descriptors - before.descriptors) / Double(count))), "#
                + #""microseconds_a_delta": \#(rounded((burst.end.cpu - burst.begin.cpu) * 1000 / Double(max(1, burst.deltas)))), "#
                + #""threads": \#(burst.streaming), "threads_in_burst": \#(burst.burst), "errors": \#(counts.failed.load(ordering: .relaxed))}"#
        )
    }

    /// Counts of answers and of their deltas.
    private final class Counts: Sendable {
        let started = Atomic(0)
        let received = Atomic(0)
        let failed = Atomic(0)
        let ended = Atomic(0)
    }

    private struct Measured {
        var burst: Int
        var streaming: Int
        var begin: Usage
        var end: Usage
        var deltas: Int
    }

    /// The memory, the descriptors and the processor time of the process.
    private struct Usage {
        /// Bytes in memory.
        var memory: Int
        var descriptors: Int
        /// Milliseconds of processor time.
        var cpu: Double

        static var now: Usage {
            let pages = (try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8))?.split(separator: " ")
            return Usage(
                memory: (pages.flatMap { Int($0[1]) } ?? 0) * Int(getpagesize()), descriptors: entries("fd"),
                cpu: Interval.now.cpu)
        }

        static var threads: Int { entries("task") }

        private static func entries(_ folder: String) -> Int {
            (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/\(folder)").count) ?? 0
        }
    }
}
