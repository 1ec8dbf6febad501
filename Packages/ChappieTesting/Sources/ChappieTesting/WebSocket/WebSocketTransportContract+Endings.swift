import ChappieCore
import FoundationEssentials

extension WebSocketTransportContract {
    static let endingCases: [Case] = [
        Case(name: "a cut before the answer is a lost connection") { transport, baseURL in
            try await HTTPTransportContract.expect(.connectionLost, at: .responseHead) {
                _ = try await open("cut-before-answer", transport, baseURL)
            }
        },
        Case(name: "what came before a close arrives, then the close, again and again") { transport, baseURL in
            let connection = try await open("goodbye", transport, baseURL)
            let words = try await messages(1, from: connection)
            try ContractViolation.require(words == [.text("last words")], "Before the close came \(words).")
            for _ in 0..<3 {
                let arrival = try await connection.receive(within: .seconds(20))
                let expected = WebSocketInbound.closed(WebSocketCloseReason(code: 1001, reason: "bye"))
                try ContractViolation.require(arrival == expected, "The close arrived as \(arrival).")
            }
            try ContractViolation.require(!connection.isOpen, "It still calls itself open.")
        },
        Case(name: "what came before a cut arrives, then the loss, again and again") { transport, baseURL in
            let connection = try await open("cut", transport, baseURL)
            let words = try await messages(1, from: connection)
            try ContractViolation.require(words == [.text("last words")], "Before the cut came \(words).")
            for _ in 0..<3 {
                try await HTTPTransportContract.expect(.connectionLost, at: .message) {
                    _ = try await connection.receive(within: .seconds(20))
                }
            }
            try ContractViolation.require(!connection.isOpen, "It still calls itself open.")
        },
        Case(name: "sending on a connection that has ended fails") { transport, baseURL in
            for path in ["cut", "goodbye"] {
                let connection = try await open(path, transport, baseURL)
                _ = try await messages(1, from: connection)
                while case .messages? = try? await connection.receive(within: .seconds(20)) {}
                try await expectFailure { try await connection.send(.text("is anybody there")) }
            }
        },
        Case(name: "closing ends it for both sides") { transport, baseURL in
            let connection = try await open("echo", transport, baseURL)
            await connection.close(.normal)
            try ContractViolation.require(!connection.isOpen, "It still calls itself open.")
            try await expectFailure { try await connection.send(.text("is anybody there")) }
            let arrival = try await connection.receive(within: .seconds(20))
            try ContractViolation.require(arrival == .closed(.normal), "Its own close arrived as \(arrival).")
            await connection.close(.goingAway)
        },
        Case(name: "what was sent before a close goes out") { transport, baseURL in
            let connection = try await open("echo", transport, baseURL)
            let sent = (0..<100).map { WebSocketMessage.text("message \($0)") }
            for message in sent { try await connection.send(message) }
            await connection.close(.normal)
            let received = try await messages(sent.count, from: connection)
            try ContractViolation.require(received == sent, "Not everything came back.")
        },
        Case(name: "dropping it ends it at once, for a receiver too") { transport, baseURL in
            let connection = try await open("silence", transport, baseURL)
            let receiver = Task { _ = try await connection.receive(within: nil) }
            try await Task.sleep(for: .milliseconds(20))
            connection.cancel()
            connection.cancel()
            guard case .failure(let error) = await receiver.result, error is ChappieTransportError else {
                throw ContractViolation("The receiver of a dropped connection was not told by an error of the port.")
            }
            try ContractViolation.require(!connection.isOpen, "It still calls itself open.")
            try await expectFailure { try await connection.send(.text("is anybody there")) }
            await connection.close(.normal)
        },
    ]

    private static func expectFailure(_ operation: () async throws -> Void) async throws {
        do {
            try await operation()
        } catch is ChappieTransportError {
            return
        }
        throw ContractViolation("It succeeded where it had to fail.")
    }
}
