@_spi(ChappieInternals) import ChappieCore
import HTTPTypes

/// Talks to the authorization server: one request out, one whole answer back.
struct IssuerClient: Sendable {
    let transport: any HTTPTransport
    let clock: any ChappieClock

    /// Why there is no answer.
    struct Failure: Error, Sendable {
        let error: ChappieAuthError
        /// Whether the same request may well succeed in a moment.
        let isTransient: Bool

        init(_ reason: any Error) {
            var isTransient = false
            switch reason {
            case is CancellationError: error = .cancelledSignIn
            case let reason as ChappieTransportError:
                isTransient = [.unknownHost, .connectFailed, .timedOut, .connectionLost].contains(reason.code)
                // A certificate or a proxy has to be fixed first, so that its advice belongs to the message.
                let words = [reason.errorDescription, isTransient ? nil : reason.recoverySuggestion]
                error = .networkFailure(words.compactMap(\.self).joined(separator: " "))
            // Something a transport should not throw; only its type is safe to name.
            default: error = .unknown("The network layer failed in an unexpected way (\(type(of: reason))).")
            }
            self.isTransient = isTransient
        }
    }

    /// Sends `request`, at most `limit` from start to end; `nil` leaves it to the transport's own deadlines.
    func send(_ request: HTTPExchangeRequest, within limit: Duration? = nil) async throws(Failure) -> IssuerAnswer {
        do {
            guard let limit else { return try await exchange(request) }
            return try await withThrowingTaskGroup(of: IssuerAnswer.self) { group in
                group.addTask { try await exchange(request) }
                group.addTask {
                    try await clock.sleep(for: limit)
                    throw ChappieTransportError(
                        .timedOut, stage: .responseHead, host: request.url.hostAndPort,
                        reason: "no whole answer within \(limit.words)")
                }
                defer { group.cancelAll() }
                guard let answer = try await group.next() else { throw CancellationError() }
                return answer
            }
        } catch {
            throw Failure(error)
        }
    }

    /// The same, where every answer but a success is an error.
    ///
    /// - Parameter secrets: the secrets in the request, so that an echo of one is taken out of the error.
    func success(
        _ request: HTTPExchangeRequest, secrets: [Secret], within limit: Duration
    ) async throws(ChappieAuthError) -> IssuerAnswer {
        let answer: IssuerAnswer
        do { answer = try await send(request, within: limit) } catch { throw error.error }
        guard answer.isSuccess else { throw answer.authError(host: request.url.hostAndPort, secrets: secrets) }
        return answer
    }

    /// The same for a request that may arrive twice: it is sent once more, over a fresh connection, if its connection failed
    /// or something before the server had no answer (502, 503, 504).
    ///
    /// - Throws: the first failure, if the server then refuses the request for good: the first one has arrived after all.
    func successOfTwo(
        _ request: HTTPExchangeRequest, secrets: [Secret], within limit: Duration
    ) async throws(ChappieAuthError) -> IssuerAnswer {
        let host = request.url.hostAndPort
        let first: ChappieAuthError
        switch await result(of: request, within: limit) {
        case .success(let answer) where answer.isSuccess: return answer
        case .success(let answer):
            first = answer.authError(host: host, secrets: secrets)
            guard [502, 503, 504].contains(answer.status) else { throw first }
        case .failure(let failure):
            first = failure.error
            guard failure.isTransient else { throw first }
        }
        switch await result(of: request, within: limit) {
        case .success(let answer) where answer.isSuccess: return answer
        case .success(let answer):
            throw answer.issuerError(secrets: secrets).isPermanent
                ? first : answer.authError(host: host, secrets: secrets)
        case .failure(let failure): throw failure.error
        }
    }

    /// An answer, whatever it says, or why there is none.
    func result(
        of request: HTTPExchangeRequest, within limit: Duration? = nil
    ) async -> Result<IssuerAnswer, Failure> {
        do { return .success(try await send(request, within: limit)) } catch { return .failure(error) }
    }

    private func exchange(_ request: HTTPExchangeRequest) async throws -> IssuerAnswer {
        let response = try await transport.send(request)
        let body = try await response.body.collect(upTo: IssuerAnswer.maximumSize, host: request.url.hostAndPort)
        return IssuerAnswer(status: response.status.code, headerFields: response.headerFields, body: body)
    }
}

/// A whole answer of the authorization server, in memory.
struct IssuerAnswer: Sendable {
    /// More than any honest answer needs.
    static let maximumSize = 1 << 20
    /// How much of an error's body is shown.
    private static let shownSize = 64 << 10

    let status: Int
    let body: [UInt8]
    /// Whether this is a web page: a proxy, a portal or a wrong address speaks, not the token endpoint.
    let isWebPage: Bool
    /// How long the server asks to wait (RFC 9110, 10.2.3).
    let retryAfter: Duration?
    /// The server's own idea of the time.
    let date: Date?

    init(status: Int, headerFields: HTTPFields = [:], body: [UInt8] = []) {
        self.status = status
        self.body = body
        isWebPage = BlockingPage.isWebPage(contentType: headerFields[.contentType], body: body)
        date = headerFields[.date].flatMap(HTTPDate.imfFixdate)
        retryAfter = headerFields[.retryAfter].flatMap { [date] in Self.retryAfter($0.trimmed, date: date) }
    }

    var isSuccess: Bool { (200..<300).contains(status) }

    /// The body as a JSON object; `nil` for everything else.
    var object: ChappieJSONObject? { (try? ChappieJSON(parsing: body))?.object }

    /// The server's words; none on a web page.
    func issuerError(secrets: [Secret]) -> IssuerError {
        IssuerError(status: status, body: isWebPage ? "" : text(without: secrets))
    }

    /// This answer as an error in the terms of the public API, without the secrets of the request, should it echo one.
    func authError(host: String, secrets: [Secret] = []) -> ChappieAuthError {
        if isWebPage, status == 403 { return .blockedByGateway(host) }
        if isWebPage, (400..<500).contains(status) {
            return .networkFailure(
                "Something between here and \(host) answered with a web page (status \(status)) instead of the sign-in "
                    + "service: a proxy, a network sign-in page, or a wrong address.")
        }
        return .tokenExchangeFailed(statusCode: status, body: text(without: secrets))
    }

    private func text(without secrets: [Secret]) -> String {
        let text = String(decoding: body, as: UTF8.self)
        return UntrustedText.message(text, without: secrets.map(\.text), limit: Self.shownSize) ?? ""
    }

    private static func retryAfter(_ value: String, date: Date?) -> Duration? {
        if let seconds = Int(value), seconds >= 0 { return .seconds(min(seconds, 86_400)) }
        guard let moment = HTTPDate.imfFixdate(value), let date else { return nil }
        return .seconds(min(max(moment.timeIntervalSince(date), 0), 86_400))
    }
}

/// The words of an error answer (RFC 6749, 5.2, and the shapes that this server really has).
struct IssuerError: Sendable, Hashable {
    let status: Int
    /// The error code, lower case; absent when there is none, or when it can't be one.
    let code: String?
    /// The server's sentence, at most 300 characters.
    let message: String?

    /// - Parameter body: as in ``ChappieAuthError/tokenExchangeFailed(statusCode:body:)``, without secrets.
    init(status: Int, body: String) {
        let body = (try? ChappieJSON(parsing: body))?.object
        self.status = status
        let error = body?["error"]
        code = [error?["code"], error, body?["code"], error?["type"]].lazy.compactMap { Self.code($0?.string) }.first
        let sentences = [body?["error_description"], error?["message"], body?["message"], body?["detail"]]
        message = UntrustedText.message(sentences.lazy.compactMap { $0?.string }.first)
    }

    /// Whether the token endpoint itself says that the refresh token, or the grant, is of no more use.
    ///
    /// A 401 always says so. A 400 or 403 may also come from something in between, or be about the place or the client:
    /// it needs a word about the token.
    var isPermanent: Bool { status == 401 || code.map(Self.permanentCodes.contains) == true }

    private static let permanentCodes: Set = [
        "invalid_grant", "refresh_token_expired", "refresh_token_reused", "refresh_token_invalidated",
    ]

    /// Why a new sign-in is needed, as sentences for the user.
    var reason: String {
        switch code {
        case "refresh_token_expired": "Your sign-in has expired. Please sign in again."
        case "refresh_token_reused":
            "Your sign-in was already renewed by another copy of it, so this one no longer counts. Please sign in again."
        case "refresh_token_invalidated": "Your sign-in was revoked. Please sign in again."
        default: "Your sign-in could not be renewed (\(summary)). Please sign in again."
        }
    }

    /// Status, message and code, as far as there are any.
    var summary: String {
        let words =
            switch (message, code) {
            case (let message?, let code?): ": \(message) (\(code))"
            case (let words?, nil), (nil, let words?): ": \(words)"
            case (nil, nil): ""
            }
        return "status \(status)\(words)"
    }

    private static func code(_ text: String?) -> String? {
        guard let text, (1...64).contains(text.utf8.count), text.utf8.allSatisfy({ isUnreserved($0) && $0 != 0x7E }),
            UntrustedText.message(text) == text
        else { return nil }
        return text.lowercased()
    }
}

/// Letters, digits and `-._~` (RFC 3986, 2.3).
func isUnreserved(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"): true
    case UInt8(ascii: "0")...UInt8(ascii: "9"): true
    default: "-._~".utf8.contains(byte)
    }
}

extension HTTPExchangeRequest {
    /// A request of the authorization server's, with the names of the program where it is to be told them.
    static func json(_ body: ChappieJSON, to url: URL, as program: ChappieRegistration? = nil) -> HTTPExchangeRequest {
        var fields: HTTPFields = [.contentType: "application/json"]
        fields[.originator] = program?.originator
        fields[.userAgent] = program?.userAgent
        fields[.accept] = "*/*"
        return HTTPExchangeRequest(
            method: .post, url: url, headerFields: fields, body: .init(bytes: body.serializedBytes()))
    }
}

extension HTTPField.Name {
    // Literals inside the token alphabet (RFC 9110, 5.6.2): the initialiser can't refuse them.
    static let originator = HTTPField.Name("originator")!
    static let chatGPTAccountID = HTTPField.Name("chatgpt-account-id")!
    static let fedRAMP = HTTPField.Name("X-OpenAI-Fedramp")!
}

extension String {
    /// Without spaces and line ends around it.
    var trimmed: String {
        let head = drop(while: \.isWhitespace)
        return String(head.reversed().drop(while: \.isWhitespace).reversed())
    }
}

extension URL {
    /// Host and, where one is written, port: what an error may say about an address.
    var hostAndPort: String { (host() ?? "") + (port.map { ":\($0)" } ?? "") }
}
