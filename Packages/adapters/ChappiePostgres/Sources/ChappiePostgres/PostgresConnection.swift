import CPostgres
import ChappieAuth
@_spi(ChappieInternals) package import ChappieCore
import Synchronization

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// The reason why work with the server failed.
package enum PostgresFailure: Error {
    /// A store's own error, after the transaction has ended cleanly.
    case answer(any Error & Sendable)
    /// The server refuses, and another attempt would not help.
    case refused(ChappiePostgresError)
    /// The store could not connect, and another attempt may help.
    case unreachable(String)
    /// The connection broke before anything was committed.
    case lost(String)
    /// The connection broke during COMMIT.
    case uncertain
    /// Another transaction conflicted with this one, and the server has undone this one.
    case contended
    /// The server did not finish in time.
    case late
    /// Tables are missing, or older than this version.
    case outdated(String)
    /// The calling task was cancelled.
    case cancelled

    /// Returns whether an error with this SQLSTATE may have passed at the next attempt, perhaps at another server
    /// (https://www.postgresql.org/docs/15/errcodes-appendix.html). The connection broke (08), the server starts or
    /// ends (57P), it has no connection left (53300), or it can only be read, as a stand-by server (25006).
    package static func passes(_ code: some StringProtocol) -> Bool {
        code.hasPrefix("08") || code.hasPrefix("57P") || code == "53300" || code == "25006"
    }
}

/// A statement and its values, which never become part of its text.
package struct PostgresStatement: Sendable, ExpressibleByStringLiteral {
    package enum Value: Sendable {
        case text(String?)
        case bytes([UInt8])
        case integer(Int)
        case bool(Bool)
        case uuid(UUID)
    }

    let text: String
    let values: [Value]

    package init(_ text: String, _ values: [Value] = []) {
        self.text = text
        self.values = values
    }

    package init(stringLiteral value: String) { self.init(value) }

    /// Queues the statement, with values and results in binary form. Returns the number of its bytes, or `nil` if libpq
    /// did not accept it.
    fileprivate func send(on handle: OpaquePointer) -> Int? {
        var types: [Oid] = []
        var bytes: [UInt8] = []
        var spans: [Range<Int>?] = []
        func add(_ type: Oid, _ value: some Sequence<UInt8>) {
            types.append(type)
            spans.append(bytes.count..<bytes.count)
            bytes.append(contentsOf: value)
            spans[spans.count - 1] = (spans.last??.lowerBound ?? 0)..<bytes.count
        }
        // The numbers of the types are those of the server's catalogue pg_type, and never change.
        for value in values {
            switch value {
            case .bool(let value): add(16, [value ? 1 : 0])
            case .bytes(let value): add(17, value)
            case .integer(let value): add(20, withUnsafeBytes(of: Int64(value).bigEndian) { Array($0) })
            case .text(let value?): add(25, value.utf8)
            case .text(nil):
                types.append(25)
                spans.append(nil)
            case .uuid(let value): add(2950, withUnsafeBytes(of: value.uuid) { Array($0) })
            }
        }
        // A value without bytes still needs an address.
        bytes.append(0)
        let lengths = spans.map { CInt($0?.count ?? 0) }
        return bytes.withUnsafeBufferPointer { buffer in
            buffer.withMemoryRebound(to: CChar.self) { buffer in
                let addresses = spans.map { span in
                    span.flatMap { span in buffer.baseAddress.map { UnsafePointer($0 + span.lowerBound) } }
                }
                let binary = [CInt](repeating: 1, count: spans.count)
                let isSent =
                    PQsendQueryParams(handle, text, CInt(spans.count), types, addresses, lengths, binary, 1) == 1
                return isSent ? buffer.count : nil
            }
        }
    }
}

/// The server's result of one statement.
package final class PostgresResult {
    private let handle: OpaquePointer

    fileprivate init(_ handle: OpaquePointer) { self.handle = handle }

    deinit { PQclear(handle) }

    fileprivate var status: ExecStatusType { PQresultStatus(handle) }
    package var rows: Range<Int> { 0..<Int(PQntuples(handle)) }
    /// The command that the server executed. It is `COMMIT`, or `ROLLBACK` if the server answered COMMIT with that.
    package var command: String { PQcmdStatus(handle).map { String(cString: $0) } ?? "" }

    package func bytes(_ row: Int, _ column: Int) -> [UInt8] {
        guard let start = PQgetvalue(handle, CInt(row), CInt(column)) else { return [] }
        let count = Int(PQgetlength(handle, CInt(row), CInt(column)))
        return start.withMemoryRebound(to: UInt8.self, capacity: count) {
            Array(UnsafeBufferPointer(start: $0, count: count))
        }
    }

    package func text(_ row: Int, _ column: Int) -> String { String(decoding: bytes(row, column), as: UTF8.self) }

    /// Returns a bigint, or a boolean as 0 or 1.
    package func integer(_ row: Int, _ column: Int) -> Int {
        Int(bytes(row, column).reduce(into: Int64(0)) { $0 = $0 << 8 | Int64($1) })
    }

    fileprivate var failure: PostgresFailure {
        guard let code = chappie_postgres_code(handle).map({ String(cString: $0) }) else {
            return .lost("the connection broke")
        }
        // Messages about data (22) and constraints (23) repeat values, so they are omitted.
        let speaks = !code.hasPrefix("22") && !code.hasPrefix("23")
        let message = speaks ? chappie_postgres_message(handle).map { String(cString: $0) } : nil
        let words = UntrustedText.message(message).map { "\($0) (\(code))" } ?? "the server refused with \(code)"
        return switch code {
        case "40001", "40P01": .contended
        case "57014", "55P03", "25P03": .late
        case "42P01", "3F000", "42703", "42883": .outdated(words)
        case _ where PostgresFailure.passes(code): .lost(words)
        default: .refused(.unavailable(words))
        }
    }
}

/// An object with which a cancelled task ends its wait for the server, which blocks another thread.
package final class PostgresInterruption: Sendable {
    private let state = Mutex((isCancelled: false, socket: CInt?.none))

    var isCancelled: Bool { state.withLock(\.isCancelled) }

    /// Ends the wait by ending the connection, which can't be used any more without its answer. libpq would send a
    /// cancel request outside TLS. The server itself detects connections that have ended.
    func cancel() {
        state.withLock { state in
            state.isCancelled = true
            if let socket = state.socket { shutdown(socket, CInt(SHUT_RDWR)) }
        }
    }

    /// Begins a wait. Returns `false` after ``cancel()``.
    fileprivate func enter(_ socket: CInt) -> Bool {
        state.withLock { state in
            if !state.isCancelled { state.socket = socket }
            return !state.isCancelled
        }
    }

    /// Ends a wait. libpq may close the socket from now on.
    fileprivate func leave() { state.withLock { $0.socket = nil } }
}

/// A connection to the server, for one thread at a time. Its methods block that thread, but not longer than their
/// limits.
///
/// Statements are sent in batches (libpq's pipeline mode), so that statements that don't depend on each other's results
/// need only one round trip. After a failure that is not an answer, the connection can't be used any more.
package final class PostgresConnection {
    private let handle: OpaquePointer
    /// The interruption of the task that currently uses the connection.
    var interruption: PostgresInterruption

    private init(_ handle: OpaquePointer, _ interruption: PostgresInterruption) {
        self.handle = handle
        self.interruption = interruption
    }

    deinit { PQfinish(handle) }

    /// Connects to the server. Only the look-up of the server's name may take longer than `limit`, because the system's
    /// resolver has its own limits.
    package static func open(
        _ address: PostgresAddress, within limit: Duration, for interruption: PostgresInterruption
    ) throws(PostgresFailure) -> PostgresConnection {
        guard let handle = address.withText({ chappie_postgres_connect($0) }) else {
            throw .unreachable("there is no memory for a connection")
        }
        let connection = PostgresConnection(handle, interruption)
        try connection.finishConnecting(address, by: .now + limit, limit)
        return connection
    }

    private func finishConnecting(
        _ address: PostgresAddress, by deadline: ContinuousClock.Instant, _ limit: Duration
    ) throws(PostgresFailure) {
        var state = PQstatus(handle) == CONNECTION_BAD ? PGRES_POLLING_FAILED : PGRES_POLLING_WRITING
        while state != PGRES_POLLING_OK {
            guard state != PGRES_POLLING_FAILED else {
                throw interruption.isCancelled ? .cancelled : refusal(of: address)
            }
            do {
                try wait(for: state == PGRES_POLLING_READING ? POLLIN : POLLOUT, until: deadline)
            } catch {
                if case .late = error {
                    throw .unreachable("the server gave no answer in \(limit.components.seconds) s")
                }
                throw error
            }
            state = PQconnectPoll(handle)
        }
        guard PQsetnonblocking(handle, 1) == 0, PQenterPipelineMode(handle) == 1 else {
            throw .unreachable("the connection can't be used")
        }
        // Other encodings can't represent most of the world's words.
        let encoding = PQparameterStatus(handle, "server_encoding").map { String(cString: $0) }
        guard encoding == "UTF8" else {
            throw .refused(
                .unavailable("the database does not use UTF-8, which the store needs; create it with ENCODING UTF8"))
        }
    }

    /// Returns the reason why the connection could not be opened.
    private func refusal(of address: PostgresAddress) -> PostgresFailure {
        let lines = PQerrorMessage(handle).map { String(cString: $0) }?.split(separator: "\n") ?? []
        // The server's own error is `FATAL:  28P01: password authentication failed`, and then its place in the source.
        let text = lines.filter { !$0.hasPrefix("LOCATION:") }.joined(separator: "\n")
        let code = text.split(separator: ":  ").last { $0.dropFirst(5).hasPrefix(": ") }?.prefix(5)
        let words = address.message(text)
        // For its own errors, libpq has no code. If its language is not English, the last two are tried again.
        let mustBeCorrected =
            PQconnectionNeedsPassword(handle) == 1 || text.contains("certificate") || text.contains("SSL was required")
        let passes = code.map { PostgresFailure.passes($0) } ?? !mustBeCorrected
        return passes ? .unreachable(words) : .refused(.unavailable(words))
    }

    /// Runs statements in order. The first failure ends the batch.
    ///
    /// - Parameters:
    ///   - limit: The time for which the server may be silent, or accept nothing. The transfer of much data may take
    ///     longer.
    ///   - commits: Whether the batch ends in COMMIT. Such a batch is not interrupted, and its outcome is unknown if
    ///     the connection breaks.
    package func run(
        _ statements: [PostgresStatement], within limit: Duration, commits: Bool = false
    ) throws(PostgresFailure) -> [PostgresResult] {
        do throws(PostgresFailure) {
            let results = try answers(to: statements, within: limit, isInterruptible: !commits)
            guard !commits || results.last?.command == "COMMIT" else { throw .contended }
            return results
        } catch {
            guard commits else { throw error }
            switch error {
            case .lost, .late, .unreachable: throw .uncertain
            default: throw error
            }
        }
    }

    private func answers(
        to statements: [PostgresStatement], within limit: Duration, isInterruptible: Bool
    ) throws(PostgresFailure) -> [PostgresResult] {
        var queued = 0
        for statement in statements {
            guard let bytes = statement.send(on: handle) else { throw loss(isInterruptible) }
            queued += bytes
            // libpq keeps a copy of the bytes that it has not sent.
            guard queued > 4 << 20 else { continue }
            try flush(within: limit, isInterruptible)
            queued = 0
        }
        guard PQpipelineSync(handle) == 1 else { throw loss(isInterruptible) }
        try flush(within: limit, isInterruptible)
        var results: [PostgresResult] = []
        var gaps = 0
        while true {
            while PQisBusy(handle) == 1 {
                try wait(for: POLLIN, until: .now + limit, isInterruptible)
                guard PQconsumeInput(handle) == 1 else { throw loss(isInterruptible) }
            }
            // `nil` separates the results of one statement from the results of the next.
            guard let result = PQgetResult(handle).map({ PostgresResult($0) }) else {
                gaps += 1
                guard gaps <= statements.count else { throw loss(isInterruptible) }
                continue
            }
            switch result.status {
            case PGRES_PIPELINE_SYNC: return results
            case PGRES_COMMAND_OK, PGRES_TUPLES_OK: results.append(result)
            default:
                if PQstatus(handle) == CONNECTION_BAD, case .lost = result.failure { throw loss(isInterruptible) }
                throw result.failure
            }
        }
    }

    /// Sends the queued bytes. Answers that arrive in the meantime are read, since the server may wait for that.
    private func flush(within limit: Duration, _ isInterruptible: Bool) throws(PostgresFailure) {
        while case let left = PQflush(handle), left != 0 {
            guard left > 0 else { throw loss(isInterruptible) }
            let ready = try wait(for: POLLIN | POLLOUT, until: .now + limit, isInterruptible)
            guard ready & ~CInt(POLLOUT) == 0 || PQconsumeInput(handle) == 1 else { throw loss(isInterruptible) }
        }
    }

    private func loss(_ isInterruptible: Bool) -> PostgresFailure {
        isInterruptible && interruption.isCancelled ? .cancelled : .lost("the connection to the server broke")
    }

    /// Waits until the socket is ready for at least one event of `events`, and returns the events that it is ready for.
    @discardableResult
    private func wait(
        for events: CInt, until deadline: ContinuousClock.Instant, _ isInterruptible: Bool = true
    ) throws(PostgresFailure) -> CInt {
        let socket = PQsocket(handle)
        guard socket >= 0 else { throw loss(isInterruptible) }
        if isInterruptible, !interruption.enter(socket) { throw .cancelled }
        defer { if isInterruptible { interruption.leave() } }
        var waiting = pollfd(fd: socket, events: Int16(events), revents: 0)
        while true {
            let rest = deadline - .now
            guard rest > .zero else { throw .late }
            let count = poll(&waiting, 1, CInt(clamping: Int((rest / .milliseconds(1)).rounded(.up))))
            if count > 0 { return CInt(waiting.revents) }
            guard count == 0 || errno == EINTR else { throw loss(isInterruptible) }
        }
    }
}

/// The address of the server and the credentials for it, in libpq's form.
package struct PostgresAddress: Sendable {
    private let text: Secret
    private let secrets: [Secret]

    /// Creates an address. Returns `nil` for a text that libpq does not understand. libpq's message is discarded,
    /// because it would repeat parts of the text.
    package init?(_ text: String) {
        guard !text.utf8.contains(0), let options = PQconninfoParse(text, nil) else { return nil }
        defer { PQconninfoFree(options) }
        var secrets: [Secret] = []
        var option = options
        while let keyword = option.pointee.keyword {
            if let value = option.pointee.val, ["password", "sslpassword"].contains(String(cString: keyword)) {
                secrets.append(Secret(String(cString: value)))
            }
            option += 1
        }
        self.text = Secret(text)
        self.secrets = secrets
    }

    func withText<Result>(_ body: (UnsafePointer<CChar>) -> Result) -> Result {
        String.string(of: text).withCString(body)
    }

    /// Returns libpq's message without the secrets.
    func message(_ words: String) -> String {
        UntrustedText.message(words, without: secrets.map { String.string(of: $0) }) ?? "there is no connection"
    }
}

extension String {
    fileprivate static func string(of secret: Secret) -> String {
        secret.withBytes { String(decoding: $0, as: UTF8.self) }
    }
}
