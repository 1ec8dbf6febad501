import ChappieCore
import FoundationEssentials
import HTTPTypes

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
            try ContractViolation.require(response.status == .ok, "The redirect ended in status \(response.status).")
            try ContractViolation.require(
                response.headerFields[.echoedMethod] == "POST", "The method did not survive the redirect.")
            try ContractViolation.require(
                response.headerFields[.echoedAuthorization] != nil, "The authorization did not reach its own origin.")
            let body = try await response.body.collect(upTo: 1000)
            try ContractViolation.require(body == Array("a body".utf8), "The body did not survive the redirect.")
        },
        Case(name: "a 303 turns a POST into a GET") { transport, baseURL in
            let response = try await transport.send(authorizedPost(baseURL.appending(path: "see-other")))
            try ContractViolation.require(
                response.headerFields[.echoedMethod] == "GET",
                "The method became \(response.headerFields[.echoedMethod] ?? "nothing"), not GET.")
            let chunk = try await response.body.next()
            try ContractViolation.require(chunk == nil, "The body went along with the GET.")
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
