@_spi(ChappieInternals) import ChappieCore
import FoundationEssentials
import HTTPTypes
import Testing

@Suite struct RedirectRuleTests {
    @Test(arguments: [
        (301, HTTPRequest.Method.post, HTTPRequest.Method.get), (302, .post, .get), (303, .put, .get),
        (307, .post, .post),
        (308, .put, .put), (301, .put, .put), (303, .head, .head),
    ])
    func aRedirectKeepsOrDropsTheBody(status: Int, before: HTTPRequest.Method, after: HTTPRequest.Method) throws {
        let request = HTTPExchangeRequest(
            method: before, url: try #require(URL(string: "https://a.test/x/y?z")),
            headerFields: [.authorization: "Bearer t", .contentType: "text/plain"], body: .init(bytes: [1]))
        let next = try #require(
            try RedirectRule.next(
                after: request, status: .init(code: status), headerFields: [.location: "../z?q"], followed: 0))
        #expect(next.method == after)
        #expect(next.url.absoluteString == "https://a.test/z?q")
        #expect(next.headerFields[.authorization] == "Bearer t")
        let dropped = before != after
        #expect((next.body == nil) == dropped)
        #expect((next.headerFields[.contentType] == nil) == dropped)
    }

    @Test(arguments: [
        "http://a.test/", "https://b.test/", "https://a.test:444/", "//b.test/", "https://u:p@a.test/", "ftp://a.test/",
        "https://a.test.b.test/",
    ])
    func aRedirectToAnotherOriginIsRefused(location: String) throws {
        let request = HTTPExchangeRequest(url: try #require(URL(string: "https://a.test/")))
        let error = try #require(throws: ChappieTransportError.self) {
            _ = try RedirectRule.next(
                after: request, status: .found, headerFields: [.location: location], followed: 0)
        }
        #expect(error.code == .redirectRefused)
        #expect(error.host == "a.test")
        #expect(error.recoverySuggestion?.contains("sign in to the network") == true)
    }

    @Test func whatIsNoRedirectIsAnAnswer() throws {
        let request = HTTPExchangeRequest(url: try #require(URL(string: "https://a.test/")))
        for (status, fields) in [(302, [:]), (304, [.location: "/"]), (300, [.location: "/"]), (200, [.location: "/"])]
            as [(Int, HTTPFields)]
        {
            let next = try RedirectRule.next(
                after: request, status: .init(code: status), headerFields: fields, followed: 0)
            #expect(next == nil)
        }
    }
}
