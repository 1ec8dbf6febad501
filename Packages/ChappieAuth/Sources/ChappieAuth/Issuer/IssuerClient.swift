@_spi(ChappieInternals) import ChappieCore
import HTTPTypes

/// Talks to the authorization server: one request out, one whole answer back.
struct IssuerClient: Sendable {
    let transport: any HTTPTransport
    let clock: any ChappieClock

    /// Why there is no answer.
    enum Failure: Error, Sendable {
        case cancelled
        case transport(ChappieTransportError)
        /// Something a transport should not throw; only its type is safe to name.
        case unexpected(String)

        /// The failure in the terms of the public API.
        var authError: ChappieAuthError {
            switch self {
            case .cancelled: .cancelledSignIn
            case .unexpected(let type): .unknown("The network layer failed in an unexpected way (\(type)).")
            case .transport(let error):
                // A certificate or a proxy has to be fixed first, so that its advice belongs to the message.
                .networkFailure(
                    [error.errorDescription ?? "The network failed.", isTransient ? nil : error.recoverySuggestion]
                        .compactMap(\.self).joined(separator: " "))
            }
        }

        /// Whether the same request may well succeed in a moment.
        var isTransient: Bool {
            guard case .transport(let error) = self else { return false }
            switch error.code {
            case .unknownHost, .connectFailed, .timedOut, .connectionLost: return true
            default: return false
            }
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
        } catch is CancellationError {
            throw .cancelled
        } catch let error as ChappieTransportError {
            throw .transport(error)
        } catch {
            throw .unexpected("\(type(of: error))")
        }
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
        let type = headerFields[.contentType]?.lowercased() ?? ""
        let firstByte = body.first { ![0x20, 0x09, 0x0A, 0x0D, 0xEF, 0xBB, 0xBF].contains($0) }
        isWebPage = type.hasPrefix("text/html") || firstByte == UInt8(ascii: "<")
        date = headerFields[.date].flatMap(HTTPDate.imfFixdate)
        retryAfter = headerFields[.retryAfter].flatMap { [date] in Self.retryAfter($0, date: date) }
    }

    var isSuccess: Bool { (200..<300).contains(status) }

    /// The body as a JSON object; `nil` for everything else.
    var object: ChappieJSONObject? { (try? ChappieJSON(parsing: body))?.object }

    /// This answer as an error in the terms of the public API.
    ///
    /// - Parameters:
    ///   - host: named where the network is the likely culprit.
    ///   - secrets: what was in the request, so that an echo of it is taken out.
    func authError(host: String, secrets: [Secret] = []) -> ChappieAuthError {
        if isWebPage, (400..<500).contains(status) {
            return .networkFailure(
                "Something between here and \(host) answered with a web page (status \(status)) instead of the sign-in "
                    + "service: a proxy, a network sign-in page, or a wrong address.")
        }
        let text = UntrustedText.message(
            String(decoding: body, as: UTF8.self), without: secrets.map(\.text), limit: Self.shownSize)
        return .tokenExchangeFailed(statusCode: status, body: text ?? "")
    }

    private static func retryAfter(_ value: String, date: Date?) -> Duration? {
        let text = value.trimmed
        if let seconds = Int(text), seconds >= 0 { return .seconds(min(seconds, 86_400)) }
        guard let moment = HTTPDate.imfFixdate(text), let date else { return nil }
        return .seconds(min(max(moment.timeIntervalSince(date), 0), 86_400))
    }
}

/// The words of an error answer (RFC 6749, 5.2, and the shapes that this server really has).
struct IssuerError: Sendable, Hashable {
    let status: Int
    /// The error code, lower case; absent when there is none, or when it can't be one.
    let code: String?
    /// The server's sentence, cleaned of secrets, at most 300 characters.
    let message: String?

    init(_ answer: IssuerAnswer, secrets: [Secret] = []) {
        self.init(
            status: answer.status, answer.isWebPage ? nil : answer.object, secrets: secrets)
    }

    /// Reads the body of ``ChappieAuthError/tokenExchangeFailed(statusCode:body:)``.
    init(status: Int, body: String) {
        self.init(status: status, (try? ChappieJSON(parsing: body))?.object, secrets: [])
    }

    private init(status: Int, _ body: ChappieJSONObject?, secrets: [Secret]) {
        self.status = status
        let error = body?["error"]
        code = [error?["code"], error, body?["code"], error?["type"]].lazy.compactMap { Self.code($0?.string) }.first
        let sentences = [body?["error_description"], error?["message"], body?["message"], body?["detail"]]
        message = UntrustedText.message(
            sentences.lazy.compactMap { $0?.string }.first, without: secrets.map(\.text))
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
        guard let text, (1...64).contains(text.utf8.count),
            text.utf8.allSatisfy({ byte in
                (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte | 0x20)
                    || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) || "_-.".utf8.contains(byte)
            }), UntrustedText.message(text) == text
        else { return nil }
        return text.lowercased()
    }
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
