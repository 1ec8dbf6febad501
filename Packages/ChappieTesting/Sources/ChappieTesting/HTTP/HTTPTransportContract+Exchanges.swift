import ChappieCore
import FoundationEssentials
import HTTPTypes

extension HTTPTransportContract {
    static let exchangeCases: [Case] = [
        Case(name: "brings back status, fields and body") { transport, baseURL in
            let response = try await transport.send(HTTPExchangeRequest(url: baseURL.appending(path: "hello")))
            try ContractViolation.require(response.status == .ok, "The status is \(response.status), not 200.")
            try ContractViolation.require(
                response.headerFields[.eTag] == "\"1\"", "The etag field is missing from \(response.headerFields).")
            let body = try await response.body.collect(upTo: 1000)
            try ContractViolation.require(
                body == Array("hello".utf8), "The body is '\(String(decoding: body, as: UTF8.self))', not 'hello'.")
        },
        Case(name: "a status of 400 or more is a response") { transport, baseURL in
            for status in [404, 429, 500] {
                let url = baseURL.appending(path: "status-\(status)")
                let response = try await transport.send(HTTPExchangeRequest(url: url))
                try ContractViolation.require(
                    response.status.code == status, "The status is \(response.status.code), not \(status).")
                let body = try await response.body.collect(upTo: 1000)
                try ContractViolation.require(!body.isEmpty, "The body of the \(status) is gone.")
            }
        },
        Case(name: "does not act on Retry-After") { transport, baseURL in
            let url = baseURL.appending(path: "status-429")
            let (response, time) = try await timed { try await transport.send(HTTPExchangeRequest(url: url)) }
            try ContractViolation.require(
                response.headerFields[.retryAfter] == "7", "The retry-after field does not reach the caller.")
            try ContractViolation.require(time < .seconds(5), "It waited for \(time) before it gave the 429 on.")
        },
        Case(name: "sends method, fields and body") { transport, baseURL in
            let request = HTTPExchangeRequest(
                method: .put, url: baseURL.appending(path: "echo"), headerFields: [.authorization: "Bearer made-up"],
                body: .init(bytes: Array("a body".utf8)))
            let response = try await transport.send(request)
            try ContractViolation.require(
                response.headerFields[.echoedMethod] == "PUT",
                "The method arrived as \(response.headerFields[.echoedMethod] ?? "nothing"), not PUT.")
            try ContractViolation.require(
                response.headerFields[.echoedAuthorization] == "Bearer made-up",
                "The authorization field did not arrive.")
            let body = try await response.body.collect(upTo: 1000)
            try ContractViolation.require(
                body == Array("a body".utf8), "The body arrived as '\(String(decoding: body, as: UTF8.self))'.")
        },
        Case(name: "delivers every byte in order, in chunks that are never empty") { transport, baseURL in
            let response = try await transport.send(HTTPExchangeRequest(url: baseURL.appending(path: "chunks")))
            var body: [UInt8] = []
            for try await chunk in response.body {
                try ContractViolation.require(!chunk.isEmpty, "It delivered an empty chunk.")
                body.append(contentsOf: chunk)
            }
            let expected = Array(repeating: Array("0123456789".utf8), count: 50).flatMap(\.self)
            try ContractViolation.require(body == expected, "The chunks don't add up to what was sent.")
        },
        Case(name: "an empty body is an end without a chunk") { transport, baseURL in
            let response = try await transport.send(HTTPExchangeRequest(url: baseURL.appending(path: "empty")))
            try ContractViolation.require(response.status == .noContent, "The status is \(response.status), not 204.")
            let chunk = try await response.body.next()
            try ContractViolation.require(chunk == nil, "It delivered a chunk of a body that isn't there.")
        },
        Case(name: "the head comes before the body") { transport, baseURL in
            let request = HTTPExchangeRequest(url: baseURL.appending(path: "no-body"), deadlines: .patient)
            let response = try await transport.send(request)
            try ContractViolation.require(response.status == .ok, "The status is \(response.status), not 200.")
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
