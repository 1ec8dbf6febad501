public import HTTPTypes

/// Rules for the redirects that are followed, and for the requests that follow them (RFC 9110, section 15.4).
@_spi(ChappieInternals) public enum RedirectRule {
    /// The number of redirects in a row that are followed.
    public static let limit = 5

    /// Sends requests until the response is an answer rather than a redirect, or is a redirect that must not be followed.
    ///
    /// - Throws: The errors of `exchange` and of ``next(after:status:headerFields:followed:)``.
    public static func follow(
        _ request: HTTPExchangeRequest, _ exchange: (HTTPExchangeRequest) async throws -> HTTPExchangeResponse
    ) async throws -> HTTPExchangeResponse {
        var request = request
        var followed = 0
        while true {
            let response = try await exchange(request)
            guard request.followsRedirects else { return response }
            let next = try next(
                after: request, status: response.status, headerFields: response.headerFields, followed: followed)
            guard let next else { return response }
            response.body.cancel()
            request = next
            followed += 1
        }
    }

    /// Returns the request that follows the redirect, or `nil` if the response is an answer rather than a redirect
    /// because it has another status or no `Location`.
    ///
    /// 307 and 308 keep method and body, 303 turns everything but HEAD into a GET, and 301 and 302 turn a POST into a
    /// GET, as browsers and curl do (the fetch standard, HTTP-redirect fetch, step 12).
    ///
    /// - Parameter followed: The number of redirects that led to `request`.
    /// - Throws: ``ChappieTransportError`` with code `.redirectRefused` if the target has another origin (an
    ///   authorization header must not leave its own origin), can't be used, or exceeds the limit.
    public static func next(
        after request: HTTPExchangeRequest, status: HTTPResponse.Status, headerFields: HTTPFields, followed: Int
    ) throws(ChappieTransportError) -> HTTPExchangeRequest? {
        guard [301, 302, 303, 307, 308].contains(status.code), let location = headerFields[.location] else {
            return nil
        }
        let origin = try Origin(of: request.url, for: .http)
        func refusal(_ reason: String) -> ChappieTransportError {
            ChappieTransportError(.redirectRefused, stage: .responseHead, host: origin.label, reason: reason)
        }
        // Some networks first redirect their users to a sign-in page.
        func elsewhere(_ reason: String) -> ChappieTransportError {
            ChappieTransportError(
                .redirectRefused, stage: .responseHead, host: origin.label, reason: reason,
                advice: BlockingPage.networkAdvice)
        }
        guard followed < limit else { throw refusal("more than \(limit) redirects in a row") }
        guard let target = URL(string: location, relativeTo: request.url)?.absoluteURL else {
            throw refusal("the redirect leads to an invalid address")
        }
        let targetOrigin: Origin
        do throws(ChappieTransportError) {
            targetOrigin = try Origin(of: target, for: .http)
        } catch {
            let place = error.host.isEmpty ? "an unusable address" : error.host
            throw elsewhere("the redirect leads to \(place)")
        }
        guard targetOrigin == origin else { throw elsewhere("the redirect leads to another origin (\(targetOrigin))") }
        var next = request
        next.url = target
        let becomesGet =
            (status.code == 303 && request.method != .head)
            || ([301, 302].contains(status.code) && request.method == .post)
        if becomesGet {
            next.method = .get
            next.body = nil
            // Fields that describe the body are removed with it.
            let ofContent: [HTTPField.Name] = [
                .contentType, .contentEncoding, .contentLanguage, .contentLocation, .contentLength,
            ]
            for name in ofContent { next.headerFields[name] = nil }
        }
        return next
    }
}
