import ChappieCore
import HTTPTypes

/// What an error answer of the authorization server says (RFC 6749, 5.2, and the shapes that this one really has).
struct IssuerError: Sendable, Hashable {
    let status: Int
    /// The error code, lower case; absent when there is none, or when it can't be one.
    let code: String?
    /// The server's sentence, cleaned of secrets, at most 300 characters.
    let message: String?
    let isWebPage: Bool

    /// - Parameter secrets: what was in the request, so that an echo of it is taken out.
    init(_ answer: IssuerAnswer, secrets: [Secret] = []) {
        status = answer.status
        isWebPage = answer.isWebPage
        let body = answer.isWebPage ? nil : answer.object
        let error = body?["error"]
        let codes = [error?["code"], error, body?["code"], error?["type"]]
        code = codes.lazy.compactMap { Self.code($0?.string) }.first
        let sentences = [body?["error_description"], error?["message"], body?["message"], body?["detail"]]
        message = SafeText.message(sentences.lazy.compactMap { $0?.string }.first, without: secrets)
    }

    /// Whether the token endpoint itself says that this refresh token is of no more use.
    ///
    /// A page with status 400 or 403 comes from something in between, and says nothing about the token.
    var isPermanent: Bool {
        if status == 401 { return true }
        if isWebPage { return false }
        return [400, 403].contains(status) || code.map(Self.permanentCodes.contains) == true
    }

    /// Why a person has to sign in again, as sentences for them.
    var reason: String {
        switch code {
        case "refresh_token_expired": "Your sign-in has expired. Please sign in again."
        case "refresh_token_reused":
            "Your sign-in was already renewed by another copy of it, so this one no longer counts. Please sign in again."
        case "refresh_token_invalidated": "Your sign-in was revoked. Please sign in again."
        default: "Your sign-in could not be renewed (\(summary)). Please sign in again."
        }
    }

    /// The error in the terms of the public API; `host` is named where the network is the likely culprit.
    func authError(host: String) -> ChappieAuthError {
        if isWebPage, (400..<500).contains(status), status != 401 {
            return .networkFailure(
                "Something between here and \(host) answered with a web page (status \(status)) instead of the sign-in "
                    + "service: a proxy, a network sign-in page, or a wrong address.")
        }
        return .tokenExchangeFailed(statusCode: status, body: body)
    }

    /// Message and code, or a few words when there are neither.
    private var body: String {
        switch (message, code) {
        case (let message?, let code?): "\(message) (\(code))"
        case (let message?, nil): message
        case (nil, let code?): code
        case (nil, nil): isWebPage ? "a web page instead of JSON" : ""
        }
    }

    private var summary: String { body.isEmpty ? "status \(status)" : "status \(status): \(body)" }

    private static let permanentCodes: Set<String> = [
        "refresh_token_expired", "refresh_token_reused", "refresh_token_invalidated",
    ]

    private static func code(_ text: String?) -> String? {
        guard let text, (1...64).contains(text.utf8.count),
            text.utf8.allSatisfy({ byte in
                (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte | 0x20)
                    || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) || "_-.".utf8.contains(byte)
            }), SafeText.message(text) == text
        else { return nil }
        return text.lowercased()
    }
}
