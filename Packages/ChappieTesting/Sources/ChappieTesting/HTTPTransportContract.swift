public import ChappieCore
public import ChappieSimulator
public import FoundationEssentials
import HTTPTypes

/// The behaviour of every ``HTTPTransport``, as a list of cases that any testing framework can run.
///
/// Each case sends requests to a server that answers by ``answer(to:)``: for an adapter a real one
/// (``startServer()``), for the fake the same script in memory (``makeFake()``).
///
/// ```swift
/// @Test(arguments: HTTPTransportContract.cases)
/// func keepsTheContract(_ contractCase: HTTPTransportContract.Case) async throws {
///     let server = try await HTTPTransportContract.startServer()
///     try await contractCase.run(MyTransport(), at: HTTPTransportContract.baseURL(of: server))
/// }
/// ```
///
/// The wire (content coding, added fields, TLS, proxies) has no counterpart in a fake and is for the tests
/// of the adapter.
public enum HTTPTransportContract {
    /// One demand on a transport.
    public struct Case: Sendable, CustomStringConvertible {
        /// The demand as a fact: `a status of 500 is a response`.
        public let name: String
        let check: @Sendable (_ transport: any HTTPTransport, _ baseURL: URL) async throws -> Void

        /// - Parameter baseURL: where the contract's server listens; the cases add their paths.
        /// - Throws: ``ContractViolation`` when the demand is not met, and whatever the transport should not have thrown.
        public func run(_ transport: any HTTPTransport, at baseURL: URL) async throws {
            try await check(transport, baseURL)
        }

        /// The name.
        public var description: String { name }
    }

    /// Every demand.
    public static let cases: [Case] = exchangeCases + endingCases + policyCases

    /// A transport that keeps the script in memory; any base URL on loopback will do.
    public static func makeFake() -> ScriptedHTTPTransport { ScriptedHTTPTransport { answer(to: $0) } }
}

// MARK: Cases

extension HTTPTransportContract {
    static let exchangeCases: [Case] = [
        Case(name: "brings back status, fields and body") { transport, baseURL in
            let response = try await transport.send(HTTPExchangeRequest(url: baseURL.appending(path: "hello")))
            try require(response.status == .ok, "The status is \(response.status), not 200.")
            try require(
                response.headerFields[.eTag] == "\"1\"", "The etag field is missing from \(response.headerFields).")
            let body = try await response.body.collect(upTo: 1000)
            try require(
                body == Array("hello".utf8), "The body is '\(String(decoding: body, as: UTF8.self))', not 'hello'.")
        },
        Case(name: "a status of 400 or more is a response") { transport, baseURL in
            for status in [404, 429, 500] {
                let url = baseURL.appending(path: "status-\(status)")
                let response = try await transport.send(HTTPExchangeRequest(url: url))
                try require(
                    response.status.code == status, "The status is \(response.status.code), not \(status).")
                let body = try await response.body.collect(upTo: 1000)
                try require(!body.isEmpty, "The body of the \(status) is gone.")
            }
        },
        Case(name: "does not act on Retry-After") { transport, baseURL in
            let url = baseURL.appending(path: "status-429")
            let (response, time) = try await timed { try await transport.send(HTTPExchangeRequest(url: url)) }
            try require(
                response.headerFields[.retryAfter] == "7", "The retry-after field does not reach the caller.")
            try require(time < .seconds(5), "It waited for \(time) before it gave the 429 on.")
        },
        Case(name: "sends method, fields and body") { transport, baseURL in
            let request = HTTPExchangeRequest(
                method: .put, url: baseURL.appending(path: "echo"), headerFields: [.authorization: "Bearer made-up"],
                body: .init(bytes: Array("a body".utf8)))
            let response = try await transport.send(request)
            try require(
                response.headerFields[.echoedMethod] == "PUT",
                "The method arrived as \(response.headerFields[.echoedMethod] ?? "nothing"), not PUT.")
            try require(
                response.headerFields[.echoedAuthorization] == "Bearer made-up",
                "The authorization field did not arrive.")
            let body = try await response.body.collect(upTo: 1000)
            try require(
                body == Array("a body".utf8), "The body arrived as '\(String(decoding: body, as: UTF8.self))'.")
        },
        Case(name: "delivers every byte in order, in chunks that are never empty") { transport, baseURL in
            let response = try await transport.send(HTTPExchangeRequest(url: baseURL.appending(path: "chunks")))
            var body: [UInt8] = []
            for try await chunk in response.body {
                try require(!chunk.isEmpty, "It delivered an empty chunk.")
                body.append(contentsOf: chunk)
            }
            let expected = Array(repeating: Array("0123456789".utf8), count: 50).flatMap(\.self)
            try require(body == expected, "The chunks don't add up to what was sent.")
        },
        Case(name: "an empty body is an end without a chunk") { transport, baseURL in
            let response = try await transport.send(HTTPExchangeRequest(url: baseURL.appending(path: "empty")))
            try require(response.status == .noContent, "The status is \(response.status), not 204.")
            let chunk = try await response.body.next()
            try require(chunk == nil, "It delivered a chunk of a body that isn't there.")
        },
        Case(name: "the head comes before the body") { transport, baseURL in
            let request = HTTPExchangeRequest(url: baseURL.appending(path: "no-body"), deadlines: .patient)
            let response = try await transport.send(request)
            try require(response.status == .ok, "The status is \(response.status), not 200.")
            response.body.cancel()
        },
    ]

    /// `operation`, and how long it took.
    static func timed<Value>(
        _ operation: () async throws -> sending Value
    ) async rethrows -> (Value, Duration) {
        let start = ContinuousClock.now
        let value = try await operation()
        return (value, ContinuousClock.now - start)
    }
}

extension ChappieDeadlines {
    /// Long enough to be out of the picture, short enough that a test which hangs ends.
    static let patient = ChappieDeadlines(
        connect: .seconds(20), responseHead: .seconds(20), firstByte: .seconds(20), idle: .seconds(20))
}

extension HTTPTransportContract {
    static let endingCases: [Case] = [
        Case(name: "a connection cut before the head is lost") { transport, baseURL in
            try await expect(.connectionLost, at: .responseHead) {
                _ = try await transport.send(HTTPExchangeRequest(url: baseURL.appending(path: "cut-before-head")))
            }
        },
        Case(name: "a body cut short delivers what came and is then lost") { transport, baseURL in
            let response = try await transport.send(HTTPExchangeRequest(url: baseURL.appending(path: "cut-in-body")))
            var bytes = 0
            try await expect(.connectionLost, at: .responseBody) {
                while let chunk = try await response.body.next() { bytes += chunk.count }
            }
            try require(bytes == 10, "It delivered \(bytes) of the 10 bytes before the cut.")
        },
        deadlineCase("no-head", at: .responseHead, ChappieDeadlines(responseHead: .milliseconds(250))),
        deadlineCase("no-body", at: .firstByte, ChappieDeadlines(firstByte: .milliseconds(250))),
        deadlineCase("half-a-body", at: .responseBody, ChappieDeadlines(idle: .milliseconds(250))),
        cancellationCase("waiting for the head", path: "no-head"),
        cancellationCase("waiting for the body", path: "no-body"),
        cancellationCase("reading the body", path: "half-a-body"),
        Case(name: "a cancelled task sends nothing") { transport, baseURL in
            let task = Task {
                while !Task.isCancelled { await Task.yield() }
                _ = try await transport.send(HTTPExchangeRequest(url: baseURL.appending(path: "hello")))
            }
            task.cancel()
            guard case .failure(let error) = await task.result, error is CancellationError else {
                throw ContractViolation("It sent a request for a task that had been cancelled.")
            }
        },
        Case(name: "cancelling the body ends it") { transport, baseURL in
            let request = HTTPExchangeRequest(url: baseURL.appending(path: "half-a-body"), deadlines: .patient)
            let body = try await transport.send(request).body
            _ = try await body.next()
            body.cancel()
            do {
                let chunk = try await body.next()
                try require(chunk == nil, "It went on delivering after the body was cancelled.")
            } catch is CancellationError {
                // The other answer that the port allows.
            }
        },
    ]

    private static func deadlineCase(
        _ path: String, at stage: ChappieTransportError.Stage, _ deadlines: ChappieDeadlines
    ) -> Case {
        Case(name: "a stall (\(path)) ends at its own deadline") { transport, baseURL in
            let request = HTTPExchangeRequest(url: baseURL.appending(path: path), deadlines: deadlines)
            let (_, time) = try await timed {
                try await expect(.timedOut, at: stage) {
                    for try await _ in try await transport.send(request).body {}
                }
            }
            try require(
                (Duration.milliseconds(240)..<Duration.seconds(5)).contains(time),
                "The deadline of 250 ms ended the exchange after \(time).")
        }
    }

    /// The port promises 100 ms. A machine that is busy with something else may miss that once, not three times.
    private static func cancellationCase(_ stage: String, path: String) -> Case {
        Case(name: "cancellation while \(stage) takes under 100 ms") { transport, baseURL in
            let request = HTTPExchangeRequest(url: baseURL.appending(path: path), deadlines: .patient)
            var times: [Duration] = []
            for _ in 0..<3 {
                let task = Task { for try await _ in try await transport.send(request).body {} }
                // Long enough to get to the stage; if it wasn't, an earlier stage was cancelled, as quickly.
                try await Task.sleep(for: .milliseconds(100))
                task.cancel()
                let (result, time) = await timed { await task.result }
                guard case .failure(let error) = result, error is CancellationError else {
                    throw ContractViolation("Cancelling while \(stage) ended in \(result), not in CancellationError.")
                }
                if time < .milliseconds(100) { return }
                times.append(time)
            }
            throw ContractViolation("Cancelling while \(stage) took \(times).")
        }
    }

    /// Runs `operation`, which must fail as the port says.
    static func expect(
        _ code: ChappieTransportError.Code, at stage: ChappieTransportError.Stage, _ operation: () async throws -> Void
    ) async throws {
        do {
            try await operation()
        } catch let error as ChappieTransportError {
            try require(
                error.code == code && error.stage == stage,
                "It failed with \(error.code) at \(error.stage) (\(error.reason)), not with \(code) at \(stage).")
            return
        }
        throw ContractViolation("It succeeded where it had to fail with \(code) at \(stage).")
    }
}

extension HTTPTransportContract {
    static let policyCases: [Case] = [
        Case(name: "plain http goes to this machine only") { transport, _ in
            for address in ["http://chappie.invalid/", "http://192.0.2.1/", "http://localhost.chappie.invalid/"] {
                try await expect(.insecureURL, at: .configuration) { try await get(address, transport) }
            }
        },
        Case(name: "an address that is not http is refused") { transport, _ in
            for address in ["ftp://127.0.0.1/", "file:///etc/hostname", "/just/a/path"] {
                try await expect(.invalidURL, at: .configuration) { try await get(address, transport) }
            }
        },
        Case(name: "a 307 within the origin is followed with method, fields and body") { transport, baseURL in
            let response = try await transport.send(authorizedPost(baseURL.appending(path: "redirect")))
            try require(response.status == .ok, "The redirect ended in status \(response.status).")
            try require(
                response.headerFields[.echoedMethod] == "POST", "The method did not survive the redirect.")
            try require(
                response.headerFields[.echoedAuthorization] != nil, "The authorization did not reach its own origin.")
            let body = try await response.body.collect(upTo: 1000)
            try require(body == Array("a body".utf8), "The body did not survive the redirect.")
        },
        Case(name: "a 303 turns a POST into a GET") { transport, baseURL in
            let response = try await transport.send(authorizedPost(baseURL.appending(path: "see-other")))
            try require(
                response.headerFields[.echoedMethod] == "GET",
                "The method became \(response.headerFields[.echoedMethod] ?? "nothing"), not GET.")
            let chunk = try await response.body.next()
            try require(chunk == nil, "The body went along with the GET.")
        },
        Case(name: "a redirect to another origin is refused") { transport, baseURL in
            try await expect(.redirectRefused, at: .responseHead) {
                _ = try await transport.send(authorizedPost(baseURL.appending(path: "redirect-away")))
            }
        },
        Case(name: "redirects come to an end") { transport, baseURL in
            try await expect(.redirectRefused, at: .responseHead) {
                _ = try await transport.send(HTTPExchangeRequest(url: baseURL.appending(path: "redirect-loop")))
            }
        },
    ]

    private static func get(_ address: String, _ transport: any HTTPTransport) async throws {
        guard let url = URL(string: address) else { throw ContractViolation("'\(address)' is no URL.") }
        _ = try await transport.send(HTTPExchangeRequest(url: url))
    }

    private static func authorizedPost(_ url: URL) -> HTTPExchangeRequest {
        HTTPExchangeRequest(
            method: .post, url: url, headerFields: [.authorization: "Bearer made-up"],
            body: .init(bytes: Array("a body".utf8)))
    }
}

// MARK: The script

extension HTTPTransportContract {
    /// The script: a path's answer, the same from a fake and from a server.
    public static func answer(to request: HTTPExchangeRequest) -> ScriptedHTTPAnswer {
        let part = Array("0123456789".utf8)
        switch request.url.lastPathComponent {
        case "hello": return .response(headerFields: [.contentType: "text/plain", .eTag: "\"1\""], body: "hello")
        case "echo": return .response(headerFields: echoFields(of: request), body: echoBody(of: request))
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
        // Port 9 is "discard": nothing listens there, and the client must not try.
        case "redirect-away":
            return .response(status: .temporaryRedirect, headerFields: [.location: "http://127.0.0.1:9/echo"])
        default: return .response(status: .badRequest, body: "the contract has no such path")
        }
    }

    /// Starts a real server on loopback that plays the script; stop it when done.
    public static func startServer() async throws -> ScriptedServer {
        try await ScriptedServer.start { received in
            guard let request = HTTPExchangeRequest(received) else {
                return .response(status: 400, body: Array("not a request of the contract".utf8))
            }
            return answer(to: request).onTheWire
        }
    }

    /// Where `server` is reached.
    public static func baseURL(of server: ScriptedServer) throws -> URL {
        guard let url = URL(string: "http://127.0.0.1:\(server.port)") else {
            throw ContractViolation("The server's port \(server.port) makes no URL.")
        }
        return url
    }

    private static func echoFields(of request: HTTPExchangeRequest) -> HTTPFields {
        var fields: HTTPFields = [.echoedMethod: request.method.rawValue]
        fields[.echoedAuthorization] = request.headerFields[.authorization]
        return fields
    }

    private static func echoBody(of request: HTTPExchangeRequest) -> String {
        String(decoding: request.body?.bytes ?? [], as: UTF8.self)
    }
}

extension HTTPField.Name {
    static var echoedMethod: HTTPField.Name { .init("x-echoed-method")! }
    static var echoedAuthorization: HTTPField.Name { .init("x-echoed-authorization")! }
}

extension HTTPExchangeRequest {
    /// The request that the server received, in the terms of the port; `nil` when they have no words for it.
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
    /// The same as HTTP/1.1 bytes. A gate is for the fake alone; here it never opens.
    fileprivate var onTheWire: ScriptedAnswer {
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
        // The regular end: after a reset, the bytes before it may be gone as well.
        case .cut, .fail: .finish
        case .stall, .wait: .stall
        }
    }
}
