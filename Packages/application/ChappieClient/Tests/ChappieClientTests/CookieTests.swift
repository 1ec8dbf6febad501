import ChappieAuth
import ChappieClient
@_spi(ChappieInternals) import ChappieCore
import ChappieTesting
import FoundationEssentials
import HTTPTypes
import Testing

/// The cookies of the backend's edge, over both transports.
@Suite(.timeLimit(.minutes(2))) struct CookieTests {
    /// The scripted clock begins at 12:00 on that day.
    private static let edge = "__cf_bm=a.1; Path=/; Expires=Fri, 20-Nov-26 12:30:00 GMT; Domain=.chatgpt.com; HttpOnly"

    private static func setting(_ cookies: String...) -> HTTPFields {
        var fields: HTTPFields = [.contentType: "text/event-stream"]
        for cookie in cookies { fields.append(HTTPField(name: .setCookie, value: cookie)) }
        return fields
    }

    private static func answer(_ text: String, setting cookies: String...) -> Reply {
        var fields: HTTPFields = [.contentType: "text/event-stream"]
        for cookie in cookies { fields.append(HTTPField(name: .setCookie, value: cookie)) }
        let events = answering(text).map { "data: \($0)\n\n" }.joined()
        return Reply(steps: [.raw(.response(headerFields: fields, body: events))])
    }

    private func sent(_ harness: ClientHarness) -> [String?] {
        harness.http.receivedRequests.map { $0.headerFields[.cookie] }
    }

    @Test func `cookies of the edge come back to it, and no others do`() async throws {
        let harness = ClientHarness(
            .serverSentEvents,
            [
                Self.answer(
                    "one", setting: Self.edge, "cf_chl_rc_ni=1; Max-Age=60", "session=secret; Path=/",
                    "_cfuvid=x; Domain=example.com", "cf_clearance=y; Path=/other", "__cflb=z; Max-Age=0"),
                .answer("two", id: "resp_2"),
            ])
        for text in ["a", "b"] { _ = await harness.ask(text) }
        #expect(sent(harness) == [nil, "__cf_bm=a.1; cf_chl_rc_ni=1"])
    }

    @Test func `a handshake has the cookies and brings some, and their change keeps the connection`() async throws {
        let harness = ClientHarness(
            .webSocket, [],
            openings: [
                .opened(headerFields: Self.setting(Self.edge)) { _, number in
                    number < 2 ? [.deliver(answering("\(number)", id: "resp_\(number)"))] : [.cut]
                },
                .opened { _, _ in [.deliver(answering("3", id: "resp_3"))] },
            ])
        for text in ["a", "b", "c"] { _ = await harness.ask(text) }
        #expect(harness.webSocket.peers.map(\.sentMessages.count) == [3, 1])
        #expect(harness.webSocket.receivedOpenings.map { $0.headerFields[.cookie] } == [nil, "__cf_bm=a.1"])
    }

    @Test func `a refused handshake's cookies go with the events`() async throws {
        let refusal = ScriptedHTTPAnswer.response(
            status: .forbidden, headerFields: Self.setting(Self.edge), body: "<html>")
        let harness = ClientHarness(.webSocket, [.answer("one")], openings: [.refused(refusal)])
        #expect(await harness.ask().text == "one")
        #expect(sent(harness) == ["__cf_bm=a.1"])
    }

    @Test func `a sign-out drops the cookies`() async throws {
        let harness = ClientHarness(
            .serverSentEvents, [Self.answer("one", setting: Self.edge), .answer("two", id: "resp_2")],
            others: [.response()])
        _ = await harness.ask("a")
        try await harness.credentials.signOut()
        _ = try await harness.credentials.importCredential(harness.seed.credential)
        _ = await harness.ask("b")
        #expect(sent(harness).last == .some(nil))
    }

    @Test func `plain http to this machine has no cookies`() async throws {
        let local = URL(string: "http://127.0.0.1:9/backend-api")
        let endpoints = ChappieEndpoints(issuer: try #require(local), backend: try #require(local))
        let harness = ClientHarness(
            .serverSentEvents, [Self.answer("one", setting: "__cf_bm=1"), .answer("two", id: "resp_2")],
            endpoints: endpoints)
        for text in ["a", "b"] { _ = await harness.ask(text) }
        #expect(sent(harness) == [nil, nil])
    }
}
