public import ChappieCore
public import ChappieSimulator
public import FoundationEssentials
import HTTPTypes

extension HTTPTransportContract {
    /// The script: which answer a path gets, whoever serves it.
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
        // Port 9 is "discard": nothing listens there, and nobody must try.
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
    /// What the server received, in the terms of the port; `nil` when they have no words for it.
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
