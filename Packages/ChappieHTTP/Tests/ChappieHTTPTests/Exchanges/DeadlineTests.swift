import ChappieCore
import ChappieHTTP
import ChappieSimulator
import HTTPTypes
import TestFixtures
import Testing

extension OverTheWire {
    @Suite struct DeadlineTests {
        static let short = Duration.milliseconds(300)

        /// A listener that never accepts has room for few connections: the one past those is never answered.
        @Test func aConnectionThatIsNotAnsweredEndsAtTheConnectDeadline() async throws {
            let listener = try await SilentListener()
            defer { listener.close() }
            let error = try await expectTimeOut(ChappieDeadlines(connect: Self.short)) {
                try await makeTransport(deadlines: $0).fetch(makeURL("http://127.0.0.1:\(listener.port)/"))
            }
            #expect(error.stage == .connect)
        }

        /// The kernel accepts the connection; nothing answers the ClientHello.
        @Test func aHandshakeThatIsNotAnsweredEndsAtTheConnectDeadline() async throws {
            let listener = try await SilentListener(backlog: 8, filled: false)
            defer { listener.close() }
            let error = try await expectTimeOut(ChappieDeadlines(connect: Self.short)) {
                try await makeTransport(deadlines: $0).fetch(makeURL("https://127.0.0.1:\(listener.port)/"))
            }
            #expect(error.stage == .tls)
        }

        @Test(arguments: [
            (
                ScriptedAnswer(steps: [.stall]), ChappieDeadlines(responseHead: short),
                ChappieTransportError.Stage.responseHead
            ),
            (
                ScriptedAnswer(steps: [.send(Array("HTTP/1.1 200 OK\r\nx-half: a".utf8)), .stall]),
                ChappieDeadlines(responseHead: short), .responseHead
            ),
            (
                ScriptedAnswer(steps: [.send(Array("HTTP/1.1 103 Early Hints\r\n\r\n".utf8)), .stall]),
                ChappieDeadlines(responseHead: short), .responseHead
            ),
            (
                ScriptedAnswer(steps: [.send(Array("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n".utf8)), .stall]),
                ChappieDeadlines(firstByte: short), .firstByte
            ),
            (
                ScriptedAnswer(steps: [.send(Array("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc".utf8)), .stall]),
                ChappieDeadlines(idle: short), .responseBody
            ),
        ])
        func eachStallEndsAtItsOwnDeadline(
            _ answer: ScriptedAnswer, _ deadlines: ChappieDeadlines, _ stage: ChappieTransportError.Stage
        ) async throws {
            let server = try await ScriptedServer.start { _ in answer }
            let error = try await expectTimeOut(deadlines) {
                try await makeTransport(deadlines: $0).fetch(server.url())
            }
            #expect(error.stage == stage)
            #expect(error.host == "127.0.0.1:\(server.port)")
            #expect(error.reason.contains("300 ms"))
            await server.stop()
        }

        @Test func aRequestThatIsNotTakenEndsAtTheIdleDeadline() async throws {
            let listener = try await SilentListener(backlog: 8, filled: false)
            defer { listener.close() }
            let body = [UInt8](repeating: 7, count: 32 << 20)
            let error = try await expectTimeOut(ChappieDeadlines(idle: Self.short)) {
                try await makeTransport(deadlines: $0).fetch(
                    HTTPExchangeRequest(
                        method: .post, url: makeURL("http://127.0.0.1:\(listener.port)/"), body: .init(bytes: body)))
            }
            #expect(error.stage == .request)
        }

        @Test func aRequestsOwnDeadlinesComeBeforeThePolicys() async throws {
            let server = try await ScriptedServer.start { _ in ScriptedAnswer(steps: [.stall]) }
            let error = try await expectTimeOut(ChappieDeadlines(responseHead: Self.short)) {
                try await makeTransport().fetch(HTTPExchangeRequest(url: server.url(), deadlines: $0))
            }
            #expect(error.stage == .responseHead)
            await server.stop()
        }

        @Test func noDeadlineBoundsAStreamAsAWhole() async throws {
            let head = Array("HTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\n".utf8)
            let drip: [ScriptedAnswer.Step] = (0..<12).flatMap { _ in [.wait(.milliseconds(100)), .send([65])] }
            let server = try await ScriptedServer.start { _ in ScriptedAnswer(steps: [.send(head)] + drip) }
            let deadlines = ChappieDeadlines(
                connect: .seconds(1), responseHead: .seconds(1), firstByte: .seconds(1), idle: .seconds(1))
            #expect(try await makeTransport(deadlines: deadlines).fetch(server.url()).body.count == 12)
            await server.stop()
        }

        /// Runs `operation` under `deadlines`, which must end it soon after the short one.
        private func expectTimeOut(
            _ deadlines: ChappieDeadlines,
            _ operation: (ChappieDeadlines) async throws -> (status: Int, body: [UInt8])
        ) async throws -> ChappieTransportError {
            let start = ContinuousClock.now
            let error = try await transportError { _ = try await operation(deadlines) }
            let time = ContinuousClock.now - start
            #expect(error.code == .timedOut, "\(error)")
            // curl's own clock counts in milliseconds.
            #expect(time >= Self.short - .milliseconds(2) && time < .seconds(4), "after \(time)")
            return error
        }
    }
}
