@_spi(ChappieInternals) import ChappieCore
import ChappieRuntime
import FoundationEssentials
import Synchronization
import TestFixtures
import Testing

@testable import ChappiePostgres
@testable import ChappieThreadsPostgres

/// Records survive when the server, the network or the caller ends too early.
extension PostgresStoreTests {
    @Test func `a server that is killed repeatedly loses and duplicates nothing`() async throws {
        try await PostgresServer.lent { server in
            try await server.makeDatabase("restarted")
            let store = try ChappiePostgresThreadStore(connectionString: server.address(of: "restarted"), tenant: "one")
            let progress = Progress()
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask {
                    var position = 0
                    for number in 0... {
                        guard !progress.isOver.withLock({ $0 }) else { break }
                        do {
                            try await store.say(["\(number)"], in: "thread", at: position)
                            progress.acknowledged.withLock { $0.append(number) }
                            position += 1
                        } catch ChappieThreadStoreError.unavailable {
                            // The record may have been stored; the next number goes to the end of the thread.
                            let count = try await eventuallyValue {
                                try await store.summary(of: "thread")?.recordCount ?? 0
                            }
                            position = try #require(count)
                        }
                    }
                }
                for _ in 0..<4 {
                    let before = progress.acknowledged.withLock(\.count)
                    guard try await eventually({ progress.acknowledged.withLock(\.count) >= before + 20 }) else {
                        progress.isOver.withLock { $0 = true }
                        throw FixtureFailure("nothing is acknowledged any more")
                    }
                    try await server.restart()
                }
                progress.isOver.withLock { $0 = true }
                try await group.waitForAll()
            }
            let numbers = try await store.texts(in: "thread").compactMap { Int($0) }
            #expect(zip(numbers, numbers.dropFirst()).allSatisfy { $0 < $1 }, "\(numbers)")
            #expect(progress.acknowledged.withLock { Set($0) }.isSubset(of: numbers))
        }
    }

    /// Two processes append to one thread; one is killed somewhere in an append, the other one goes on, and a new one takes
    /// the place of the first; and so on.
    @Test func `killed processes that write one thread lose and duplicate nothing`() async throws {
        let (address, tenant) = (server.address(of: Self.shared), tenant)
        let rounds = ProcessInfo.processInfo.environment["CHAPPIE_LONG_TESTS"] == nil ? 6 : 100
        let writers = try await onOwnThread {
            var writers = try [Writer("writer-0", address, tenant)]
            for round in 1...rounds {
                let (old, new) = (writers[round - 1], try Writer("writer-\(round)", address, tenant))
                try new.listen(5)
                try old.listen(Int.random(in: 1...20))
                try old.kill()
                try new.listen(5)
                writers.append(new)
            }
            try writers[rounds].kill()
            return writers.map { (name: $0.name, positions: $0.positions) }
        }
        // No position is missing: reading says so.
        let texts = try await store().texts(in: "shared")
        #expect(texts.count == Set(texts).count)
        for (name, positions) in writers {
            let own = texts.indices.filter { texts[$0].hasPrefix("\(name) ") }
            #expect(own.map { texts[$0] } == own.indices.map { "\(name) \($0 + 1)" })
            #expect(own.starts(with: positions), "\(name): \(positions) of \(own)")
            // Kept, and killed before it was said.
            #expect(own.count <= positions.count + 1, "\(name): \(positions) of \(own)")
        }
        let acknowledged = writers.reduce(0) { $0 + $1.positions.count }
        print("measured: kill -9 of \(writers.count) processes: \(acknowledged) acknowledged, \(texts.count) kept")
    }

    /// An append that begins a thread is cut before the message; an append that continues one is cut in its middle.
    @Test(arguments: CuttingProxy.Direction.allCases, [false, true])
    func `a connection cut at any message of an append loses and duplicates nothing`(
        _ direction: CuttingProxy.Direction, inTheMiddle: Bool
    ) async throws {
        let proxy = try CuttingProxy(to: server.port)
        defer { proxy.close() }
        let store = try store(port: proxy.port, .init(connections: 1))
        func append(_ number: Int, cuttingAt cut: CuttingProxy.Cut?) async throws {
            proxy.count(cuttingAt: cut)
            if inTheMiddle {
                try await store.say(["\(number)"], in: "thread", at: number)
            } else {
                try await store.say(["\(number)"], in: "thread-\(number)", at: 0)
            }
        }
        try await store.say(["0"], in: inTheMiddle ? "thread" : "thread-0", at: 0)
        // The connection is made; what passes from now on are the messages of an append.
        try await append(1, cuttingAt: nil)
        let messages = proxy.passed(direction)
        #expect(messages > 20)
        for message in 0..<messages {
            try await append(
                2 + message, cuttingAt: .init(direction: direction, message: message, passesHalf: inTheMiddle))
            #expect(!proxy.isArmed, "at message \(message)")
        }
        let numbers = (0..<messages + 2).map(String.init)
        if inTheMiddle {
            #expect(try await store.texts(in: "thread") == numbers)
        } else {
            for number in numbers { #expect(try await store.texts(in: "thread-\(number)") == [number]) }
        }
    }

    /// A call that is cancelled just when its connection breaks says what has become of its record, whichever it is.
    @Test(arguments: CuttingProxy.Direction.allCases)
    func `a cancelled append whose connection is cut reports its outcome`(_ direction: CuttingProxy.Direction)
        async throws
    {
        let proxy = try CuttingProxy(to: server.port)
        defer { proxy.close() }
        let store = try store(port: proxy.port, .init(connections: 1))
        try await store.say(["0"], in: "thread", at: 0)
        proxy.count(cuttingAt: nil)
        try await store.say(["1"], in: "thread", at: 1)
        let messages = proxy.passed(direction)
        var (kept, cancelled) = (["0", "1"], 0)
        for message in 0..<messages {
            let (text, position) = ("\(kept.count)", kept.count)
            let isArmed = Promise<Void>()
            let append = Task {
                try await isArmed.value()
                try await store.say([text], in: "thread", at: position)
            }
            proxy.count(
                cuttingAt: .init(direction: direction, message: message, passesHalf: false) { append.cancel() })
            isArmed.fulfil(.success(()))
            do {
                try await append.value
                kept.append(text)
            } catch {
                #expect(error as? ChappieThreadStoreError == .unavailable("the task was cancelled"), "at \(message)")
                cancelled += 1
            }
            #expect(!proxy.isArmed, "at message \(message)")
            #expect(try await store.texts(in: "thread") == kept, "at message \(message)")
        }
        #expect(cancelled > 0 && kept.count > 2)
    }

    @Test(arguments: CuttingProxy.Direction.allCases)
    func `a connection that is cut while it opens is replaced or is an error`(_ direction: CuttingProxy.Direction)
        async throws
    {
        let proxy = try CuttingProxy(to: server.port)
        defer { proxy.close() }
        proxy.count(cuttingAt: nil)
        try await rawConnection(port: proxy.port).run { _ throws(PostgresFailure) in }
        // And the first look at the new connection.
        let messages = proxy.passed(direction) + 5
        for message in 0..<messages {
            let store = try store(port: proxy.port)
            proxy.count(cuttingAt: .init(direction: direction, message: message, passesHalf: true))
            do {
                try await store.say(["text"], in: "thread-\(message)", at: 0)
            } catch {
                await refusal("unavailable") { throw error }
                try await store.say(["text"], in: "thread-\(message)", at: 0)
            }
            #expect(!proxy.isArmed, "at message \(message)")
            #expect(try await store.texts(in: "thread-\(message)") == ["text"])
        }
    }

    @Test func `a call that waits for another transaction ends in time or with its task`() async throws {
        try await server.makeDatabase("locked")
        let store = try store(in: "locked", .init(connections: 1))
        try await store.say(["first"], in: "thread", at: 0)
        let holder = try rawConnection(to: "locked")
        let schema = PostgresSchema(.threads, in: "chappie", tenant: tenant, limit: Patience.limit)
        try await holder.run { connection throws(PostgresFailure) in
            _ = try schema.begin(["SELECT 1::bigint FROM chappie.threads FOR UPDATE"], on: connection)
        }

        let hasty = try self.store(in: "locked", .init(statementTimeout: .milliseconds(200)))
        await #expect(throws: ChappieThreadStoreError.busy(.milliseconds(200))) {
            try await hasty.say(["second"], in: "thread", at: 1)
        }

        let blocked = Task { try await store.say(["second"], in: "thread", at: 1) }
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = 'locked' AND wait_event_type = 'Lock'"
        #expect(try await eventually { try await server.sql(waiting) == "1" })
        // Another call waits for the only connection, and leaves the line.
        let next = Task { try await store.summaries() }
        next.cancel()
        await refusal("unavailable", saying: "cancelled") { _ = try await next.value }
        blocked.cancel()
        await refusal("unavailable", saying: "cancelled") { try await blocked.value }
        // The server has noticed by itself.
        #expect(try await eventually { try await server.sql(waiting) == "0" })

        try await holder.run { connection throws(PostgresFailure) in try schema.rollBack(on: connection) }
        try await store.say(["second"], in: "thread", at: 1)
        #expect(try await store.texts(in: "thread") == ["first", "second"])
    }

    // MARK: Connecting

    @Test func `a call without a connection waits for a server that starts again`() async throws {
        try await PostgresServer.lent { server in
            try await server.makeDatabase("restarted")
            let store = try ChappiePostgresThreadStore(
                connectionString: server.address(of: "restarted"), tenant: "one",
                options: .init(connectTimeout: Patience.limit, idleTimeout: .milliseconds(1)))
            try await store.say(["first"], in: "thread", at: 0)
            let connections = "SELECT count(*) FROM pg_stat_activity WHERE datname = 'restarted'"
            #expect(try await eventually { try await server.sql(connections) == "0" })
            try await server.end()
            async let append: Void = store.say(["second"], in: "thread", at: 1)
            try await server.restart()
            try await append
            #expect(try await store.texts(in: "thread") == ["first", "second"])
        }
    }

    @Test func `a server without a free connection is asked again until the task is cancelled`() async throws {
        try await server.makeDatabase("crowded")
        try await server.sql("ALTER DATABASE crowded CONNECTION LIMIT 1")
        let holder = try rawConnection(to: "crowded")
        try await holder.run { _ throws(PostgresFailure) in }
        let proxy = try CuttingProxy(to: server.port)
        defer { proxy.close() }
        let store = try store(in: "crowded", port: proxy.port, .init(connectTimeout: Patience.limit))
        /// Waits until two attempts have failed. An attempt sends three messages.
        func awaitRefusals() async throws {
            proxy.count(cuttingAt: nil)
            #expect(try await eventually { proxy.passed(.toServer) > 6 })
        }
        let cancelled = Task { try await store.summaries() }
        try await awaitRefusals()
        cancelled.cancel()
        await refusal("unavailable", saying: "cancelled") { _ = try await cancelled.value }

        let append = Task { try await store.say(["first"], in: "thread", at: 0) }
        try await awaitRefusals()
        await holder.close()
        try await append.value
        #expect(try await store.texts(in: "thread") == ["first"])
    }

    @Test func `a write waits for a server that can only be read`() async throws {
        try await server.makeDatabase("standby")
        try await store(in: "standby").say(["first"], in: "thread", at: 0)
        try await server.sql("ALTER DATABASE standby SET default_transaction_read_only = on")
        let proxy = try CuttingProxy(to: server.port)
        defer { proxy.close() }
        let store = try store(in: "standby", port: proxy.port, .init(connectTimeout: Patience.limit))
        #expect(try await store.texts(in: "thread") == ["first"])
        proxy.count(cuttingAt: nil)
        let append = Task { try await store.say(["second"], in: "thread", at: 1) }
        // An attempt sends fewer than 32 messages.
        #expect(try await eventually { proxy.passed(.toServer) > 32 })
        try await server.sql("ALTER DATABASE standby RESET default_transaction_read_only")
        try await append.value
        #expect(try await store.texts(in: "thread") == ["first", "second"])
    }

    @Test func `an error that a user must correct ends the call at once`() async throws {
        let proxy = try CuttingProxy(to: server.port)
        defer { proxy.close() }
        for (settings, words, messages) in [
            ("user=app password=wrong dbname=shared", "28P01: password authentication failed", 3),
            ("user=app dbname=shared", "no password supplied", 1),
            ("user=app password=\(PostgresServer.password) dbname=absent", "3D000: database \"absent\"", 3),
        ] {
            let store = try ChappiePostgresThreadStore(
                connectionString: "host=127.0.0.1 port=\(proxy.port) gssencmode=disable sslmode=disable \(settings)",
                tenant: tenant, options: .init(connectTimeout: Patience.limit))
            proxy.count(cuttingAt: nil)
            await refusal("unavailable", saying: words) { _ = try await store.summaries() }
            #expect(proxy.passed(.toServer) == messages, "for \(words)")
        }
    }

    // MARK: Large threads

    @Test func `a reader next to replace sees only old or only new records`() async throws {
        let proxy = try CuttingProxy(to: server.port)
        defer { proxy.close() }
        let (writer, reader) = try (store(), store(port: proxy.port))
        _ = try await reader.summaries()
        // One read takes half a second, so that some of the replacements happen in the meantime.
        proxy.slowDown()
        let versions = try (0..<5).map { version in
            let records = (0..<6).map { number in
                ChappieThreadRecord(
                    position: number, kind: .turnFailed, date: Date(timeIntervalSince1970: 1_790_000_000),
                    body: ["turn": "one", "error": .string(String(repeating: "\(version)", count: 1_000_000))])
            }
            return (records: records, summary: try #require(ChappieThreadSummary(id: "thread", records: records)))
        }
        try await writer.append(versions[0].records, to: versions[0].summary, at: 0)
        let progress = Progress()
        async let replacements: Void = {
            defer { progress.isOver.withLock { $0 = true } }
            for (records, summary) in versions.dropFirst() {
                try await writer.replace(records, of: summary, expecting: records.count)
            }
        }()
        repeat {
            let records = try await reader.records(of: "thread", from: 0)
            #expect(records.count == 6 && Set(records.map(\.body)).count == 1)
        } while !progress.isOver.withLock { $0 }
        try await replacements
    }

    @Test func `a thread too slow for one statement is read and written completely`() async throws {
        let proxy = try CuttingProxy(to: server.port)
        defer { proxy.close() }
        let limit = Duration.seconds(3)
        let store = try store(port: proxy.port, .init(statementTimeout: limit))
        _ = try await store.summaries()
        // 48 MB, at some 12 MB a second.
        proxy.slowDown()
        let records = (0..<24).map { number in
            ChappieThreadRecord(
                position: number, kind: .turnFailed, date: Date(timeIntervalSince1970: 1_790_000_000),
                body: ["turn": "one", "error": .string("\(number)" + String(repeating: "e", count: 2_000_000))])
        }
        let summary = try #require(ChappieThreadSummary(id: "large", records: records))
        let begin = ContinuousClock.now
        try await store.append(records, to: summary, at: 0)
        #expect(.now - begin > limit)
        let read = ContinuousClock.now
        #expect(try await store.records(of: "large", from: 0) == records)
        #expect(.now - read > limit)
        #expect(try await store.records(of: "large", from: 23) == records.suffix(1))
        #expect(try await store.records(of: "large", from: 24) == [])
        #expect(try await store.records(of: "large", from: 99) == [])
    }

    @Test(arguments: [Duration.seconds(Int.max), .seconds(30 * 86_400), .seconds(Int.max / 2)])
    func aTimeoutMayMeanNone(_ timeout: Duration) async throws {
        let store = try store(
            .init(connectTimeout: timeout, statementTimeout: timeout, idleTimeout: timeout))
        try await store.say(["words"], in: "thread", at: 0)
        #expect(try await store.texts(in: "thread") == ["words"])
    }

    @Test func saysWhatIsWrongAndNothingThatIsSecret() async throws {
        let secret = "wr0ng-s3cret"
        let server = "postgresql://app:\(secret)@127.0.0.1"
        let silent = try await SilentListener()
        for (address, words) in [
            ("\(server):1/shared", "Connection refused"),
            ("\(server):\(self.server.port)/shared?sslmode=require", "does not support SSL"),
            ("\(server):\(silent.port)/shared", "no answer"),
            ("host=/nowhere user=app password=\(secret)", "No such file or directory"),
            ("\(server):\(self.server.port)/shared?nonsense=\(secret)", "connection string"),
            ("\(secret)", "connection string"),
        ] {
            let error = await refusal("unavailable", saying: words, "for \(words)") {
                let store = try ChappiePostgresThreadStore(
                    connectionString: address, tenant: tenant, options: .init(connectTimeout: .seconds(5)))
                var dumped = ""
                dump(store, to: &dumped)
                #expect(!dumped.contains(secret))
                _ = try await store.summaries()
            }
            #expect(error.map { "\($0) \($0.errorDescription ?? "")".contains(secret) } == false, "for \(words)")
            #expect(error?.recoverySuggestion?.contains("disk") == false)
        }
        #expect(throws: ChappieThreadStoreError.unavailable("the tenant has no name")) { _ = try store(tenant: "") }
    }
}

/// Of a writer.
private final class Progress: Sendable {
    let acknowledged = Mutex<[Int]>([])
    let isOver = Mutex(false)
}

/// The program `PostgresThreadWriter`, running. Its functions block.
private final class Writer {
    let name: String
    /// The positions of its records, as the program has reported them.
    private(set) var positions: [Int] = []
    private let program: RunningProgram

    init(_ name: String, _ address: String, _ tenant: String) throws {
        self.name = name
        // SwiftPM puts the programs of a package beside its tests.
        let tests = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        program = try RunningProgram(
            URL(filePath: tests).deletingLastPathComponent().path + "/PostgresThreadWriter", [address, tenant, name],
            output: .pipe, errors: .inherited)
    }

    /// Waits until it has said so of `count` more records.
    func listen(_ count: Int) throws {
        for _ in 0..<count {
            guard let line = program.output?.line() else { throw FixtureFailure("\(name) appends nothing more") }
            try hear(line)
        }
    }

    /// Ends it by SIGKILL, and takes what it had said until then.
    func kill() throws {
        program.end()
        while let line = program.output?.line() { try hear(line) }
    }

    private func hear(_ line: String) throws {
        let words = line.split(separator: " ").compactMap { Int($0) }
        guard words.count == 2, words[1] == positions.count + 1 else { throw FixtureFailure("\(name) said \(line)") }
        positions.append(words[0])
    }
}

/// The attempts after each failure, and their times.
struct PostgresRetriesTests {
    private let start = ContinuousClock.now
    private var retries: PostgresRetries

    init() { retries = PostgresRetries(reconnecting: .seconds(10), findingOut: .seconds(30), began: start) }

    @Test mutating func `a missing server is tried until the call has waited long enough`() {
        for second in 0..<10 {
            let pause = retries.pause(after: .unreachable(""), now: start + .seconds(second), jitter: 0)
            #expect(pause.map { $0 > .zero && $0 <= .seconds(1) } == true)
        }
        #expect(retries.pause(after: .unreachable(""), now: start + .seconds(10), jitter: 0) == nil)
        #expect(retries.pause(after: .refused(.damaged("")), now: start, jitter: 0) == nil)
    }

    @Test mutating func `a broken connection is replaced in the time after its loss`() {
        #expect(retries.pause(after: .lost(""), now: start + .seconds(20), jitter: 0) == .milliseconds(20))
        #expect(!retries.isUncertain)
        #expect(retries.pause(after: .unreachable(""), now: start + .seconds(21), jitter: 0) == .milliseconds(40))
        #expect(retries.pause(after: .lost(""), now: start + .seconds(29), jitter: 0) == .milliseconds(80))
        #expect(retries.pause(after: .unreachable(""), now: start + .seconds(30), jitter: 0) == nil)
    }

    @Test(arguments: [
        ("08006", true), ("57P01", true), ("57P03", true), ("53300", true), ("25006", true), ("28P01", false),
        ("3D000", false), ("42501", false), ("53100", false),
    ])
    func `an error passes or must be corrected`(code: String, passes: Bool) {
        #expect(PostgresFailure.passes(code) == passes)
    }

    @Test mutating func anOpenOutcomeIsAskedForUntilTheTimeIsUp() {
        for second in 0..<30 {
            for failure in [PostgresFailure.uncertain, .lost(""), .unreachable("")] {
                let pause = retries.pause(after: failure, now: start + .seconds(second), jitter: 0)
                #expect(pause.map { $0 > .zero && $0 <= .seconds(1) } == true)
            }
        }
        #expect(retries.isUncertain)
        #expect(retries.pause(after: .lost(""), now: start + .seconds(30), jitter: 0) == nil)
        #expect(retries.pause(after: .cancelled, now: start, jitter: 0) == nil)
    }

    @Test mutating func `collisions and missing tables are retried within limits`() {
        #expect(retries.pause(after: .outdated(""), now: start, jitter: 0) == .zero)
        #expect(retries.wantsMigration)
        retries.migrated()
        #expect(retries.pause(after: .outdated(""), now: start, jitter: 0) == nil)
        let pauses = (0..<20).compactMap { _ in retries.pause(after: .contended, now: start, jitter: 1) }
        #expect(pauses.count == 8 && pauses.allSatisfy { $0 <= .seconds(2) })
    }
}

/// The first value that `read` returns without an error.
private func eventuallyValue<Value>(_ read: () async throws -> Value) async throws -> Value? {
    var value: Value?
    _ = try await eventually {
        value = try? await read()
        return value != nil
    }
    return value
}
