import ChappieCore
import FoundationEssentials
import HTTPTypes

extension WebSocketTransportContract {
    static let exchangeCases: [Case] = [
        Case(name: "header fields go there, and those of the answer come back") { transport, baseURL in
            let opening = try await transport.open(
                baseURL.appending(path: "echo"), headerFields: [.contractQuestion: "how many"])
            guard case .opened(_, let fields) = opening else { throw ContractViolation("It was refused.") }
            try ContractViolation.require(
                fields[.contractAnswer] == "how many", "The answer's fields are \(fields), not those of the server.")
        },
        Case(name: "messages of both kinds go there and come back as they were") { transport, baseURL in
            let connection = try await open("echo", transport, baseURL)
            let sent: [WebSocketMessage] = [
                .text("hello"), .binary([0, 255, 10]), .text(""), .text("größer ✓ 𝄞"), .binary([]),
                .binary([UInt8](repeating: 3, count: 100_000)),
            ]
            for message in sent { try await connection.send(message) }
            let received = try await messages(sent.count, from: connection)
            try ContractViolation.require(received == sent, "What came back is not what was sent.")
        },
        Case(name: "messages come in their order, and none twice") { transport, baseURL in
            let connection = try await open("greeting", transport, baseURL)
            let first = try await messages(3, from: connection)
            try ContractViolation.require(
                first == [.text("one"), .text("two"), .text("three")], "The greeting arrived as \(first).")
            try await connection.send(.text("four"))
            let next = try await messages(1, from: connection)
            try ContractViolation.require(next == [.text("four")], "After the greeting came \(next).")
        },
        Case(name: "an answer other than 101 is a refusal with fields and body") { transport, baseURL in
            let url = baseURL.appending(path: "refused")
            guard case .refused(let response) = try await transport.open(url, headerFields: [:]) else {
                throw ContractViolation("A status of 403 opened a connection.")
            }
            try ContractViolation.require(response.status == .forbidden, "The status is \(response.status), not 403.")
            try ContractViolation.require(response.headerFields[.contractAnswer] == "no", "Its fields are gone.")
            let body = try await response.body.collect(upTo: 1000)
            try ContractViolation.require(body == Array("not you".utf8), "Its body is gone.")
        },
        Case(name: "a redirect is a refusal") { transport, baseURL in
            let url = baseURL.appending(path: "moved")
            guard case .refused(let response) = try await transport.open(url, headerFields: [:]) else {
                throw ContractViolation("A redirect opened a connection.")
            }
            try ContractViolation.require(
                response.status == .temporaryRedirect, "The status is \(response.status), not 307.")
        },
        Case(name: "http is as good as ws") { transport, baseURL in
            guard let url = URL(string: baseURL.absoluteString.replacing("ws://", with: "http://") + "/echo") else {
                throw ContractViolation("'\(baseURL)' has no sibling.")
            }
            guard case .opened = try await transport.open(url, headerFields: [:]) else {
                throw ContractViolation("It was refused.")
            }
        },
        Case(name: "plain ws goes to this machine only") { transport, _ in
            for address in ["ws://chappie.invalid/", "http://192.0.2.1/", "ws://localhost.chappie.invalid/"] {
                guard let url = URL(string: address) else { throw ContractViolation("'\(address)' is no URL.") }
                try await HTTPTransportContract.expect(.insecureURL, at: .configuration) {
                    _ = try await transport.open(url, headerFields: [:])
                }
            }
        },
        Case(name: "an address that no WebSocket has is refused") { transport, _ in
            for address in ["ftp://127.0.0.1/", "file:///etc/hostname", "/just/a/path"] {
                guard let url = URL(string: address) else { throw ContractViolation("'\(address)' is no URL.") }
                try await HTTPTransportContract.expect(.invalidURL, at: .configuration) {
                    _ = try await transport.open(url, headerFields: [:])
                }
            }
        },
    ]
}
