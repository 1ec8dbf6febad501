@_spi(ChappieInternals) public import ChappieCore
public import HTTPTypes

/// A client that sends requests to an authorization server and reads each answer completely.
@_spi(ChappieInternals) public struct IssuerClient: Sendable {
    let transport: any HTTPTransport
    let clock: any ChappieClock

    /// The longest time that a server may ask a request of a sign-in to wait, because the user also waits.
    private static let patience = Duration.seconds(15)

    /// Creates a client that uses this transport and this clock.
    public init(transport: any HTTPTransport, clock: any ChappieClock) {
        self.transport = transport
        self.clock = clock
    }

    /// Sends `request` and returns the answer, whatever its status. It may take `limit` from start to end.
    ///
    /// - Throws: The errors of the transport, and `CancellationError`. ``ChappieAuthError/init(_:)`` creates the message
    ///   for the user.
    public func send(_ request: HTTPExchangeRequest, within limit: Duration) async throws -> IssuerResponse {
        let late = ChappieTransportError(
            .timedOut, stage: .responseHead, host: request.url.hostAndPort,
            reason: "no whole answer within \(limit.words)")
        return try await withDeadline(limit, clock: clock, late: late) { try await exchange(request) }
    }

    /// Sends a request that may arrive twice, and returns the answer, whatever its status. It sends the request once
    /// more, over a new connection, if the connection failed or if the server or a gateway in front of it has a fault
    /// (5xx). If the server asks for a short pause (429), it does so after the pause.
    ///
    /// If the server then refuses the request permanently, the first request has arrived after all. The first answer
    /// or failure is the result in this case.
    ///
    /// - Throws: The errors of ``send(_:within:)``.
    public func sendRepeatable(_ request: HTTPExchangeRequest, within limit: Duration) async throws -> IssuerResponse {
        let first: Result<IssuerResponse, any Error>
        /// The pause before another attempt, or `nil` if another attempt does not help.
        let pause: Duration?
        do {
            let answer = try await send(request, within: limit)
            first = .success(answer)
            pause =
                answer.status == 511
                ? nil : answer.status >= 500 ? .zero : answer.status == 429 ? answer.retryAfter : nil
        } catch {
            first = .failure(error)
            pause = (error as? ChappieTransportError)?.isTransient == true ? .zero : nil
        }
        guard let pause, pause <= Self.patience else { return try first.get() }
        try await clock.sleep(for: pause)
        let second = try await send(request, within: limit)
        return second.issuerError(secrets: []).isPermanent ? try first.get() : second
    }

    /// Sends `request` and returns the answer, but throws an error for every answer except a success.
    ///
    /// - Parameter secrets: The secrets in the request. They are removed from the error if the answer repeats them.
    func success(
        _ request: HTTPExchangeRequest, secrets: [Secret], within limit: Duration
    ) async throws(ChappieAuthError) -> IssuerResponse {
        let answer: IssuerResponse
        do {
            answer = try await send(request, within: limit)
        } catch {
            throw ChappieAuthError(error)
        }
        guard answer.isSuccess else { throw answer.authError(host: request.url.hostAndPort, secrets: secrets) }
        return answer
    }

    /// Sends a request that may arrive twice, and throws an error for every answer except a success.
    ///
    /// - Throws: ``ChappieAuthError/tooManyRequests(retryAfter:)`` if the server asks for a longer pause.
    func successOfTwo(
        _ request: HTTPExchangeRequest, secrets: [Secret], within limit: Duration
    ) async throws(ChappieAuthError) -> IssuerResponse {
        let answer: IssuerResponse
        do {
            answer = try await sendRepeatable(request, within: limit)
        } catch {
            throw ChappieAuthError(error)
        }
        guard answer.isSuccess else { throw answer.signInError(host: request.url.hostAndPort, secrets: secrets) }
        return answer
    }

    /// Sleeps for `duration`.
    ///
    /// - Throws: ``ChappieAuthError/cancelledSignIn`` if the task is cancelled.
    func sleep(for duration: Duration) async throws(ChappieAuthError) {
        do {
            try await clock.sleep(for: duration)
        } catch {
            throw .cancelledSignIn
        }
    }

    private func exchange(_ request: HTTPExchangeRequest) async throws -> IssuerResponse {
        let response = try await transport.send(request)
        var body: [UInt8] = []
        if response.headerFields[.contentType]?.lowercased().hasPrefix("text/event-stream") == true {
            // A tool server that is asked without a token may keep its answer open.
            response.body.cancel()
        } else {
            body = try await response.body.collect(upTo: IssuerResponse.maximumSize, host: request.url.hostAndPort)
        }
        return IssuerResponse(status: response.status.code, headerFields: response.headerFields, body: body)
    }
}

extension ChappieAuthError {
    /// Creates the public error for the failure of an exchange.
    init(_ reason: any Error) {
        switch reason {
        case is CancellationError: self = .cancelledSignIn
        case let reason as ChappieTransportError:
            // The user first has to fix a certificate or a proxy, so the message includes the advice.
            let needsAdvice = !reason.isTransient || reason.code == .proxyFailed
            let words = [reason.errorDescription, needsAdvice ? reason.recoverySuggestion : nil]
            self = .networkFailure(words.compactMap(\.self).joined(separator: " "))
        // A transport should not throw this. Only the type of the error is safe to show.
        default: self = .unknown("The network layer failed in an unexpected way (\(type(of: reason))).")
        }
    }
}

extension ChappieTransportError {
    /// Whether the same request to the issuer may succeed soon.
    var isTransient: Bool {
        [.unknownHost, .connectFailed, .timedOut, .connectionLost].contains(code)
            || code == .proxyFailed && stage == .connect
    }
}

/// A complete answer of the authorization server, in memory.
@_spi(ChappieInternals) public struct IssuerResponse: Sendable {
    /// The maximum size of an answer in bytes. No legitimate answer is larger.
    fileprivate static let maximumSize = 1 << 20
    /// The number of bytes that are shown of the body of an error.
    private static let shownSize = 64 << 10

    /// The status code.
    public let status: Int
    /// The header fields.
    public let headerFields: HTTPFields
    /// The complete body, which is empty for an event stream.
    public let body: [UInt8]
    /// Whether this is a web page. It is then from a proxy, a portal or a wrong address, not from the token endpoint.
    let isWebPage: Bool
    /// The time that the server asks the client to wait (RFC 9110, 10.2.3).
    let retryAfter: Duration?
    /// The time by the server's clock.
    let date: Date?

    /// Creates an answer.
    public init(status: Int, headerFields: HTTPFields = [:], body: [UInt8] = []) {
        self.status = status
        self.headerFields = headerFields
        self.body = body
        isWebPage = BlockingPage.isWebPage(contentType: headerFields[.contentType], body: body)
        date = headerFields[.date].flatMap(HTTPDate.imfFixdate)
        // A date in this field is relative to the server's clock.
        let seconds = headerFields[.retryAfter].flatMap { [date] in RetryAfter.seconds($0, now: date ?? .distantFuture)
        }
        retryAfter = seconds.map { .seconds(min($0, 86_400)) }
    }

    /// Whether the server has carried out the request. A web page is not from the server.
    var isSuccess: Bool { (200..<300).contains(status) && !isWebPage }

    /// The body as a JSON object, or `nil` if it is anything else.
    public var object: ChappieJSONObject? { (try? ChappieJSON(parsing: body))?.object }

    /// Returns the server's error, which is empty for a web page.
    func issuerError(secrets: [Secret]) -> IssuerError {
        IssuerError(status: status, body: isWebPage ? "" : text(without: secrets))
    }

    /// Returns this answer as a public error. If the answer repeats secrets of the request, they are removed.
    func authError(host: String, secrets: [Secret] = []) -> ChappieAuthError {
        if isWebPage, status == 403 { return .blockedByGateway(host) }
        if status == 511 || isWebPage && (200..<500).contains(status) {
            let sentence = BlockingPage.networkSentence(host: host, status: status)
            return .networkFailure("\(sentence) \(BlockingPage.networkAdvice)")
        }
        return .tokenExchangeFailed(statusCode: status, body: text(without: secrets))
    }

    /// Returns this answer as a public error for a step of a sign-in, which informs the user how long to wait.
    func signInError(host: String, secrets: [Secret] = []) -> ChappieAuthError {
        if status == 429, let retryAfter { return .tooManyRequests(retryAfter: retryAfter) }
        return authError(host: host, secrets: secrets)
    }

    private func text(without secrets: [Secret]) -> String {
        let text = String(decoding: body, as: UTF8.self)
        return UntrustedText.message(text, without: secrets.map(\.text), limit: Self.shownSize) ?? ""
    }
}

extension HTTPExchangeRequest {
    /// Returns a request with a JSON body to the authorization server. It names `program` if that is given.
    static func json(_ body: ChappieJSON, to url: URL, as program: ChappieRegistration? = nil) -> HTTPExchangeRequest {
        var fields: HTTPFields = [.contentType: "application/json"]
        fields[.originator] = program?.originator
        fields[.userAgent] = program?.userAgent
        fields[.accept] = "*/*"
        return HTTPExchangeRequest(
            method: .post, url: url, headerFields: fields, body: .init(bytes: body.serializedBytes()))
    }

    /// Returns a request with a form as its body to the authorization server. It names `program` if that is given.
    @_spi(ChappieInternals) public static func form(
        _ fields: [(name: String, value: String)], to url: URL, as program: ChappieRegistration? = nil
    ) -> HTTPExchangeRequest {
        var header: HTTPFields = [.contentType: "application/x-www-form-urlencoded"]
        header[.userAgent] = program?.userAgent
        header[.accept] = "*/*"
        return HTTPExchangeRequest(
            method: .post, url: url, headerFields: header, body: .init(bytes: FormFields.encoded(fields)))
    }
}

extension HTTPField.Name {
    // These literals consist of token characters (RFC 9110, 5.6.2), so the initialiser can't refuse them.
    static let originator = HTTPField.Name("originator")!
    static let chatGPTAccountID = HTTPField.Name("chatgpt-account-id")!
    static let fedRAMP = HTTPField.Name("X-OpenAI-Fedramp")!
    static let residency = HTTPField.Name("x-openai-internal-codex-residency")!
    static let routingOverride = HTTPField.Name("x-openai-account-routing-override")!
}

extension URL {
    /// The host, and the port if there is one. An error may show this part of an address.
    var hostAndPort: String { (host() ?? "") + (port.map { ":\($0)" } ?? "") }
}
