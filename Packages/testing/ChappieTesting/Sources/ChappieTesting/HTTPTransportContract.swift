public import ChappieCore
public import ChappieSimulatorServer
import HTTPTypes

/// The behaviour of every ``HTTPTransport``, as a list of cases that any testing framework can run.
///
/// Each case sends requests to a server that answers with ``answer(to:)``. For an adapter, it is a real server
/// (``startServer()``). For the fake, it is the same script in memory (``makeFake()``).
///
/// ```swift
/// @Test(arguments: HTTPTransportContract.cases)
/// func keepsTheContract(_ contractCase: HTTPTransportContract.Case) async throws {
///     let server = try await HTTPTransportContract.startServer()
///     try await contractCase.run(MyTransport(), at: HTTPTransportContract.baseURL(of: server))
/// }
/// ```
///
/// The wire (content coding, added fields, TLS, proxies) has no counterpart in a fake. The tests of the adapter cover
/// it.
public enum HTTPTransportContract {
    /// One requirement for a transport.
    public typealias Case = TransportContractCase<any HTTPTransport>

    /// Returns a transport that plays the script in memory. Any base URL on loopback is suitable.
    public static func makeFake() -> ScriptedHTTPTransport { ScriptedHTTPTransport { answer(to: $0) } }

    /// Every case.
    public static let cases: [Case] = [
        exchange("brings back status, fields and body", "hello", fields: [.eTag: "\"1\""], body: "hello"),
        exchange("a status of 404 is a response", "status-404", status: 404, body: "no"),
        exchange("does not act on Retry-After", "status-429", status: 429, fields: [.retryAfter: "7"], body: "wait"),
        exchange("a status of 500 is a response", "status-500", status: 500, body: "oh"),
        exchange(
            "sends method, fields and body", "echo", .put,
            fields: [.echoedMethod: "PUT", .echoedAuthorization: "Bearer made-up"], body: "a body"),
        exchange(
            "delivers every byte in order, in chunks that are never empty", "chunks",
            body: String(repeating: "0123456789", count: 50)),
        exchange("an empty body is an end without a chunk", "empty", status: 204),
        exchange(
            "a 307 within the origin is followed with method, fields and body", "redirect", .post,
            fields: [.echoedMethod: "POST", .echoedAuthorization: "Bearer made-up"], body: "a body"),
        exchange("a 303 turns a POST into a GET", "see-other", .post, fields: [.echoedMethod: "GET"]),
        .failing("a redirect to another origin is refused", at: "redirect-away", .redirectRefused, .responseHead, get),
        .failing("redirects come to an end", at: "redirect-loop", .redirectRefused, .responseHead, get),
        .failing("a cut before the head is a loss", at: "cut-before-head", .connectionLost, .responseHead, get),
        Case("a body cut short delivers what came and is then lost") { transport, baseURL in
            let request = HTTPExchangeRequest(url: baseURL.appending(path: "cut-in-body"))
            let body = try await transport.send(request).body
            var bytes = 0
            try await expect(.connectionLost, at: .responseBody) {
                while let chunk = try await body.next() { bytes += chunk.count }
            }
            try require(bytes == 10, "It delivered \(bytes) of the 10 bytes before the cut.")
        },
        stall("no-head", .responseHead, ChappieDeadlines(responseHead: .milliseconds(250))),
        stall("no-body", .firstByte, ChappieDeadlines(firstByte: .milliseconds(250))),
        stall("half-a-body", .responseBody, ChappieDeadlines(idle: .milliseconds(250))),
        .cancelling("waiting for the head", at: "no-head", get),
        .cancelling("waiting for the body", at: "no-body", get),
        .cancelling("reading the body", at: "half-a-body", get),
        .cancelledBefore(at: "hello", get),
        Case("the head comes before the body, and cancelling the body ends it") { transport, baseURL in
            for path in ["no-body", "half-a-body"] {
                let url = baseURL.appending(path: path)
                let response = try await transport.send(HTTPExchangeRequest(url: url, deadlines: .patient))
                try require(response.status == .ok, "The status is \(response.status), not 200.")
                if path == "half-a-body" { _ = try await response.body.next() }
                response.body.cancel()
                do {
                    let chunk = try await response.body.next()
                    try require(chunk == nil, "It continued to deliver after the body was cancelled.")
                } catch is CancellationError {
                    // The port also allows this answer.
                }
            }
        },
        .refusing(
            "plain http goes to this machine only",
            ["http://chappie.invalid/", "http://192.0.2.1/", "http://localhost.chappie.invalid/"], .insecureURL, get),
        .refusing(
            "an address that is not http is refused", ["ftp://127.0.0.1/", "file:///etc/hostname", "/just/a/path"],
            .invalidURL, get),
    ]

    /// Runs one complete exchange with long deadlines.
    private static let get: Case.Check = { transport, url in
        for try await _ in try await transport.send(HTTPExchangeRequest(url: url, deadlines: .patient)).body {}
    }

    /// Returns a case whose exchange succeeds without delay.
    private static func exchange(
        _ name: String, _ path: String, _ method: HTTPRequest.Method = .get, status: Int = 200,
        fields: HTTPFields = [:], body: String = ""
    ) -> Case {
        Case(name) { transport, baseURL in
            let request = HTTPExchangeRequest(
                method: method, url: baseURL.appending(path: path), headerFields: [.authorization: "Bearer made-up"],
                body: method == .get ? nil : .init(bytes: Array("a body".utf8)))
            let start = ContinuousClock.now
            let response = try await transport.send(request)
            try require(response.status.code == status, "The status is \(response.status), not \(status).")
            for field in fields {
                let value = response.headerFields[field.name] ?? "missing"
                try require(value == field.value, "The field \(field.name) is \(value), not \(field.value).")
            }
            var received: [UInt8] = []
            for try await chunk in response.body {
                try require(!chunk.isEmpty, "It delivered an empty chunk.")
                received += chunk
            }
            let text = String(decoding: received, as: UTF8.self)
            try require(text == body, "The body is '\(text)', not '\(body)'.")
            let time = ContinuousClock.now - start
            try require(time < .seconds(5), "It took \(time).")
        }
    }

    private static func stall(
        _ path: String, _ stage: ChappieTransportError.Stage, _ deadlines: ChappieDeadlines
    ) -> Case {
        .failing(
            "a stall (\(path)) ends at its own deadline", at: path, .timedOut, stage, deadline: .milliseconds(250)
        ) { transport, url in
            for try await _ in try await transport.send(HTTPExchangeRequest(url: url, deadlines: deadlines)).body {}
        }
    }
}

extension ChappieDeadlines {
    /// Deadlines that are long enough not to matter, and short enough that a test which hangs ends.
    static let patient = ChappieDeadlines(
        connect: .seconds(20), responseHead: .seconds(20), firstByte: .seconds(20), idle: .seconds(20))
}

// MARK: The script

extension HTTPTransportContract {
    /// Returns the script's answer to a request. It is the same from a fake and from a server.
    public static func answer(to request: HTTPExchangeRequest) -> ScriptedHTTPAnswer {
        let part = Array("0123456789".utf8)
        switch request.url.lastPathComponent {
        case "hello": return .response(headerFields: [.contentType: "text/plain", .eTag: "\"1\""], body: "hello")
        case "echo":
            var fields: HTTPFields = [.echoedMethod: request.method.rawValue]
            fields[.echoedAuthorization] = request.headerFields[.authorization]
            return .response(headerFields: fields, body: String(decoding: request.body?.bytes ?? [], as: UTF8.self))
        case "empty": return ScriptedHTTPAnswer(status: .noContent)
        case "status-404": return .response(status: .notFound, body: "no")
        case "status-429": return .response(status: .tooManyRequests, headerFields: [.retryAfter: "7"], body: "wait")
        case "status-500": return .response(status: .internalServerError, body: "oh")
        case "chunks": return ScriptedHTTPAnswer(body: Array(repeating: .chunk(part), count: 50))
        case "no-head": return ScriptedHTTPAnswer(beforeHead: [.stall])
        case "no-body": return ScriptedHTTPAnswer(body: [.stall])
        case "half-a-body": return ScriptedHTTPAnswer(body: [.chunk(part), .stall])
        case "cut-before-head": return ScriptedHTTPAnswer(beforeHead: [.cut])
        case "cut-in-body": return ScriptedHTTPAnswer(body: [.chunk(part), .cut])
        case "redirect": return .response(status: .temporaryRedirect, headerFields: [.location: "/echo"])
        case "see-other": return .response(status: .seeOther, headerFields: [.location: "/echo"])
        case "redirect-loop": return .response(status: .temporaryRedirect, headerFields: [.location: "/redirect-loop"])
        // Port 9 is "discard". Nothing listens there, and the client must not try.
        case "redirect-away":
            return .response(status: .temporaryRedirect, headerFields: [.location: "http://127.0.0.1:9/echo"])
        default: return .response(status: .badRequest, body: "the contract has no such path")
        }
    }

    /// Starts a real server on loopback that plays the script. The caller stops it.
    public static func startServer() async throws -> ScriptedServer {
        try await ScriptedServer.start { received in
            guard let request = HTTPExchangeRequest(received) else {
                return .response(status: 400, body: Array("not a request of the contract".utf8))
            }
            return answer(to: request).onTheWire
        }
    }

    /// Returns the address of `server`.
    public static func baseURL(of server: ScriptedServer) throws -> URL {
        guard let url = URL(string: "http://127.0.0.1:\(server.port)") else {
            throw ContractViolation("The server's port \(server.port) makes no URL.")
        }
        return url
    }
}

extension HTTPField.Name {
    fileprivate static var echoedMethod: HTTPField.Name { .init("x-echoed-method")! }
    fileprivate static var echoedAuthorization: HTTPField.Name { .init("x-echoed-authorization")! }
}

extension HTTPExchangeRequest {
    /// Creates the port's form of a request that the server received, or returns `nil` if there is none.
    fileprivate init?(_ received: ReceivedRequest) {
        guard let url = URL(string: "http://127.0.0.1" + received.target),
            let method = HTTPRequest.Method(rawValue: received.method)
        else { return nil }
        var fields = HTTPFields()
        for (name, value) in received.headerFields {
            if let name = HTTPField.Name(name) { fields.append(HTTPField(name: name, value: value)) }
        }
        self.init(method: method, url: url, headerFields: fields, body: Body(bytes: received.body))
    }
}

extension ScriptedHTTPAnswer {
    /// The answer as HTTP/1.1 bytes. A gate is only for the fake and never opens here.
    var onTheWire: ScriptedAnswer {
        let isBodiless = status.code == 204
        var head = "HTTP/1.1 \(status.code) \(status.reasonPhrase)\r\n"
        for field in headerFields { head += "\(field.name): \(field.value)\r\n" }
        head += isBodiless ? "\r\n" : "transfer-encoding: chunked\r\n\r\n"
        let end: [ScriptedAnswer.Step] = isBodiless ? [] : [.send(Array("0\r\n\r\n".utf8))]
        return ScriptedAnswer(
            steps: beforeHead.compactMap(\.onTheWire) + [.send(Array(head.utf8))] + body.compactMap(\.onTheWire) + end)
    }
}

extension ScriptedHTTPAnswer.Step {
    fileprivate var onTheWire: ScriptedAnswer.Step? {
        switch self {
        case .chunk(let bytes) where bytes.isEmpty: nil
        case .chunk(let bytes):
            .send(Array("\(String(bytes.count, radix: 16))\r\n".utf8) + bytes + Array("\r\n".utf8))
        // This is the regular end, because after a reset, the bytes before it may also be lost.
        case .cut, .fail: .finish
        case .pause(let pause): .wait(pause)
        case .stall, .wait: .stall
        }
    }
}
