@_spi(ChappieInternals) import ChappieCore
import FoundationEssentials
import Testing

@_spi(ChappieInternals) @testable import ChappieAuth

extension CallbackRequests {
    /// Answers a request of this user.
    fileprivate mutating func answer(_ head: [UInt8]) -> [UInt8] { answer(head, from: .sameUser) }
}

/// The listener's side of a sign-in without a socket: heads go in, responses come out.
@Suite struct CallbackRequestTests {
    private static let state = "state-0123456789"
    private static let callback = "/auth/callback?code=code-1&state=\(state)&client_id=oaiapp_1"

    private static func requests() -> CallbackRequests {
        CallbackRequests(port: 50_001, path: "/auth/callback", state: Secret(state))
    }

    private static func head(_ target: String, method: String = "GET", _ fields: String...) -> [UInt8] {
        let fields = fields.isEmpty ? ["Host: 127.0.0.1:50001"] : fields
        return Array((["\(method) \(target) HTTP/1.1"] + fields).joined(separator: "\r\n").utf8)
            + Array("\r\n\r\n".utf8)
    }

    private static func status(_ response: [UInt8]) -> Int? {
        String(decoding: response, as: UTF8.self).split(separator: " ").dropFirst().first.flatMap { Int($0) }
    }

    @Test(
        arguments: [
            (true, "&iss=https%3A%2F%2Fa.example", true), (true, "", false), (false, "", true),
            (true, "&iss=https%3A%2F%2Fa.example%2F", false), (false, "&iss=https%3A%2F%2FA.example", false),
            (false, "&iss=https%3A%2F%2Fa.example&iss=https%3A%2F%2Fa.example", false),
        ])
    func anAnswerThatNamesAnotherServerEndsTheSignIn(isNamed: Bool, field: String, isTaken: Bool) throws {
        for rest in ["code=c", "error=access_denied&error_description=words-of-another"] {
            var requests = CallbackRequests(
                port: 50_001, path: "/auth/callback", state: Secret(Self.state),
                issuer: .init(identifier: "https://a.example", isNamed: isNamed))
            _ = requests.answer(Self.head("/auth/callback?\(rest)&state=\(Self.state)\(field)"))
            let error: ChappieAuthError?
            do {
                _ = try #require(requests.outcome).get()
                error = nil
            } catch let failure as ChappieAuthError {
                error = failure
            }
            let isOfAnother = error?.errorDescription?.contains("another sign-in service") == true
            #expect(isOfAnother == !isTaken)
            if !isTaken { #expect(error?.errorDescription?.contains("words-of-another") == false) }
            #expect((error == nil) == (isTaken && rest == "code=c"))
        }
    }

    @Test func `the callback leaves the address bar for a page without parameters`() throws {
        var requests = Self.requests()
        let first = String(decoding: requests.answer(Self.head(Self.callback)), as: UTF8.self)
        #expect(first.hasPrefix("HTTP/1.1 303 See Other\r\nLocation: /auth/done\r\n"))
        for field in ["Cache-Control: no-store", "Referrer-Policy: no-referrer", "Connection: close"] {
            #expect(first.contains("\r\n\(field)\r\n"))
        }
        #expect(first.contains("Content-Security-Policy: default-src 'none';"))
        #expect(!first.contains("code-1") && !first.contains(Self.state))
        let approval = try #require(requests.outcome).get()
        #expect(approval.code == Secret("code-1"))
        #expect(approval.clientID == "oaiapp_1")
        #expect(Self.status(requests.answer(Self.head("/auth/done"))) == 200)
    }

    @Test func `an address that reveals nothing leads a browser to the page once`() throws {
        var requests = Self.requests()
        #expect(requests.start(Secret("first")) == "http://127.0.0.1:50001/auth/start/first")
        #expect(Self.status(requests.answer(Self.head("/auth/start/first"))) == 404)
        requests.page = "https://issuer.test/authorize?state=\(Self.state)"
        _ = requests.start(Secret("second"))
        for target in ["/auth/start/", "/auth/start/third", "/auth/start/second?x=y"] {
            #expect(Self.status(requests.answer(Self.head(target))) == 404)
        }
        #expect(Self.status(requests.answer(Self.head("/auth/start/second", "Host: evil.example:50001"))) == 400)
        let response = String(decoding: requests.answer(Self.head("/auth/start/second")), as: UTF8.self)
        #expect(response.hasPrefix("HTTP/1.1 303 See Other\r\nLocation: https://issuer.test/authorize?state="))
        let again = requests.answer(Self.head("/auth/start/second"))
        #expect(Self.status(again) == 410)
        #expect(String(decoding: again, as: UTF8.self).contains("already used"))
        #expect(Self.status(requests.answer(Self.head("/auth/start/first"))) == 303)
        #expect(requests.outcome == nil)
        #expect(Self.status(requests.answer(Self.head(Self.callback))) == 303)
    }

    @Test func `another user gets nothing from a start address and does not use it up`() {
        var requests = Self.requests()
        requests.page = "https://issuer.test/authorize?state=\(Self.state)"
        _ = requests.start(Secret("name"))
        for _ in 0..<2 {
            let answer = requests.answer(Self.head("/auth/start/name"), from: .anotherUser)
            #expect(Self.status(answer) == 403)
            #expect(!String(decoding: answer, as: UTF8.self).contains(Self.state))
        }
        #expect(Self.status(requests.answer(Self.head("/auth/start/name"))) == 303)
        #expect(Self.status(requests.answer(Self.head("/auth/start/name"), from: .anotherUser)) == 403)
        #expect(requests.outcome == nil)
    }

    @Test(arguments: [(CallbackPeer.sameUser, true), (.unknown, false)])
    func `only this user's own browser is led to a page that names the user`(peer: CallbackPeer, isNamed: Bool) {
        var requests = Self.requests()
        requests.page = "https://issuer.test/authorize?a=1&id_token_hint=e30.e30.x&state=s&login_hint=a%40b.example&z=2"
        _ = requests.start(Secret("name"))
        let answer = String(decoding: requests.answer(Self.head("/auth/start/name"), from: peer), as: UTF8.self)
        let location = answer.split(separator: "\r\n").first { $0.hasPrefix("Location: ") }
        let page = isNamed ? requests.page : "https://issuer.test/authorize?a=1&state=s&z=2"
        #expect(location.map { String($0.dropFirst(10)) } == page)
    }

    @Test func `a callback may come from a browser of another user`() throws {
        var requests = Self.requests()
        #expect(Self.status(requests.answer(Self.head(Self.callback), from: .anotherUser)) == 303)
        #expect(try requests.outcome?.get().code == Secret("code-1"))
    }

    @Test func contentLengthIsTheBodysLength() throws {
        var requests = Self.requests()
        for target in [Self.callback, "/auth/done", "/other"] {
            let text = String(decoding: requests.answer(Self.head(target)), as: UTF8.self)
            let end = try #require(text.firstRange(of: "\r\n\r\n"))
            let length = text.split(separator: "\r\n").first { $0.hasPrefix("Content-Length: ") }?.dropFirst(16)
            #expect(length.flatMap { Int($0) } == text[end.upperBound...].utf8.count)
        }
    }

    @Test(
        arguments: [
            ("another method", head(callback, method: "POST"), 405),
            ("a head request", head(callback, method: "HEAD"), 405),
            ("no host", Array("GET \(callback) HTTP/1.1\r\n\r\n".utf8), 400),
            ("a rebound name", head(callback, "Host: attacker.example:50001"), 400),
            ("localhost", head(callback, "Host: localhost:50001"), 400),
            ("another port", head(callback, "Host: 127.0.0.1:50002"), 400),
            ("no port", head(callback, "Host: 127.0.0.1"), 400),
            ("two hosts", head(callback, "Host: 127.0.0.1:50001", "host: 127.0.0.1:50001"), 400),
            ("a folded host", head(callback, "Host:", " 127.0.0.1:50001"), 400),
            ("white space before the colon", head(callback, "Host : 127.0.0.1:50001"), 400),
            ("a bare line feed", Array("GET \(callback) HTTP/1.1\nHost: 127.0.0.1:50001\r\n\r\n".utf8), 400),
            ("a head without an end", Array("GET \(callback) HTTP/1.1\r\nHost: 127.0.0.1:50001\r\n".utf8), 400),
            ("a body beside the head", head(callback) + Array("x".utf8), 400),
            ("another version", Array("GET \(callback) HTTP/2\r\nHost: 127.0.0.1:50001\r\n\r\n".utf8), 400),
            ("nothing", [], 400),
            ("an empty line", Array("\r\n\r\n".utf8), 400),
            ("an absolute target", head("http://127.0.0.1:50001\(callback)"), 400),
            ("a fragment", head(callback + "#x"), 400),
            ("an unknown path", head("/favicon.ico"), 404),
            ("a longer path", head("/auth/callback/?code=c&state=\(state)"), 404),
            ("an escaped path", head("/auth/%63allback?code=c&state=\(state)"), 404),
            ("the last page too early", head("/auth/done"), 404),
            ("no query", head("/auth/callback"), 400),
            ("no state", head("/auth/callback?code=c"), 400),
            ("another state", head("/auth/callback?code=c&state=state-0123456788"), 400),
            ("a longer state", head("/auth/callback?code=c&state=\(state)0"), 400),
            ("an empty state", head("/auth/callback?code=c&state="), 400),
            ("two states", head("/auth/callback?code=c&state=\(state)&state=\(state)"), 400),
            ("no code", head("/auth/callback?state=\(state)"), 400),
            ("two codes", head("/auth/callback?code=c&code=d&state=\(state)"), 400),
            ("two client ids", head("/auth/callback?code=c&client_id=a&client_id=b&state=\(state)"), 400),
            ("a code with a line break", head("/auth/callback?code=c%0Ad&state=\(state)"), 400),
            ("half an escape", head("/auth/callback?code=c%4&state=\(state)"), 400),
            ("bytes that are no text", head("/auth/callback?code=%FF&state=\(state)"), 400),
            ("an error with another state", head("/auth/callback?error=access_denied&state=x"), 400),
        ] as [(String, [UInt8], Int)])
    func aStrangersRequestChangesNothing(_ name: String, _ head: [UInt8], _ status: Int) throws {
        var requests = Self.requests()
        #expect(Self.status(requests.answer(head)) == status, "\(name)")
        #expect(requests.outcome == nil, "\(name)")
        #expect(Self.status(requests.answer(Self.head(Self.callback))) == 303, "\(name)")
        #expect(try requests.outcome?.get().code == Secret("code-1"))
    }

    @Test func whatABrowserSendsBesideIsAllowed() {
        var requests = Self.requests()
        let target = "/auth/callback?scope=openid+email&iss=https%3A%2F%2Fissuer.test&code=c%2B1&state=\(Self.state)&x"
        let head = Self.head(target, "Host: 127.0.0.1:50001", "Cookie: a=\u{E9}", "Accept-Language: de\tx")
        #expect(Self.status(requests.answer(head)) == 303)
        #expect(try! requests.outcome?.get().code == Secret("c+1"))
    }

    @Test func `a second callback is refused, and the first one counts`() throws {
        var requests = Self.requests()
        _ = requests.answer(Self.head(Self.callback))
        let second = requests.answer(Self.head("/auth/callback?code=code-2&state=\(Self.state)"))
        #expect(Self.status(second) == 400)
        #expect(String(decoding: second, as: UTF8.self).contains("already used"))
        #expect(try requests.outcome?.get().code == Secret("code-1"))
    }

    @Test(arguments: [
        ("error=access_denied", "The sign-in was not allowed in the browser."),
        (
            "error=server_error&error_description=Out+of+order",
            "The sign-in service refused: Out of order (server_error)"
        ),
        ("error=temporarily_unavailable", "The sign-in service refused: (temporarily_unavailable)"),
        ("error=access_denied&code=c", "The sign-in was not allowed in the browser."),
    ])
    func anErrorEndsTheSignIn(_ query: String, _ words: String) {
        var requests = Self.requests()
        #expect(Self.status(requests.answer(Self.head("/auth/callback?\(query)&state=\(Self.state)"))) == 303)
        #expect(throws: ChappieAuthError.authorizationDenied(words)) { try requests.outcome?.get() }
    }

    @Test(arguments: ["", " \n", "#anything"])
    func aPastedAddressIsAsGoodAsARequest(_ after: String) throws {
        var requests = Self.requests()
        try requests.paste(" http://127.0.0.1:50001\(Self.callback)\(after)")
        #expect(try requests.outcome?.get().code == Secret("code-1"))
        #expect(throws: ChappieAuthError.wrongCallbackAddress("This sign-in was already used.")) {
            try requests.paste("http://127.0.0.1:50001\(Self.callback)")
        }
    }

    @Test(arguments: [
        "", "code-1", callback, "https://127.0.0.1:50001\(callback)", "http://localhost:50001\(callback)",
        "http://127.0.0.1:50002\(callback)", "http://127.0.0.1:50001/?code=c&state=\(state)",
        "http://127.0.0.1:50001@attacker.example\(callback)", "http://127.0.0.1:50001/auth/callback?code=c&state=x",
        "http://127.0.0.1:50001/auth/callback?code=c", "http://127.0.0.1:50001/auth/callback?state=\(state)",
    ])
    func aWrongAddressIsRefusedInWordsWithoutItsQueryAndTheSignInContinues(_ address: String) throws {
        var requests = Self.requests()
        let error = #expect(throws: ChappieAuthError.self) { try requests.paste(address) }
        guard case .wrongCallbackAddress(let words) = error else { throw error ?? .invalidResponse }
        #expect(!words.contains("state="))
        #expect(requests.outcome == nil)
        try requests.paste("http://127.0.0.1:50001\(Self.callback)")
        #expect(requests.outcome != nil)
    }
}
