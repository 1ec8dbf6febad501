@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieCurl
import FoundationEssentials
import HTTPTypes

/// Which redirects are followed, and with what (RFC 9110, section 15.4).
enum RedirectRule {
    /// How many in a row are followed.
    static let limit = 5

    /// The request that `response` sends us on to; `nil` when it is an answer rather than a redirect: another status,
    /// or no `Location`.
    ///
    /// 307 and 308 keep method and body, 303 turns everything but HEAD into a GET, and 301 and 302 turn a POST into a
    /// GET, as browsers and curl do (the fetch standard, HTTP-redirect fetch, step 12).
    ///
    /// - Parameter followed: how many redirects led to `request`.
    /// - Throws: ``ChappieTransportError`` with code `.redirectRefused` when the target is of another origin (an
    ///   authorization header must not leave its own), can't be used, or is one too many.
    static func next(
        after request: HTTPExchangeRequest, status: HTTPResponse.Status, headerFields: HTTPFields, followed: Int
    ) throws(ChappieTransportError) -> HTTPExchangeRequest? {
        guard [301, 302, 303, 307, 308].contains(status.code), let location = headerFields[.location] else {
            return nil
        }
        let origin = try CurlRoute.origin(of: request.url, for: .http)
        func refusal(_ reason: String) -> ChappieTransportError {
            ChappieTransportError(.redirectRefused, stage: .responseHead, host: origin.label, reason: reason)
        }
        guard followed < limit else { throw refusal("more than \(limit) redirects in a row") }
        guard let target = URL(string: location, relativeTo: request.url)?.absoluteURL else {
            throw refusal("the redirect leads to no valid address")
        }
        let targetOrigin: Origin
        do throws(ChappieTransportError) {
            targetOrigin = try CurlRoute.origin(of: target, for: .http)
        } catch {
            let place = error.host.isEmpty ? "an unusable address" : error.host
            throw refusal("the redirect leads to \(place): \(error.reason)")
        }
        guard targetOrigin == origin else { throw refusal("the redirect leads to another origin (\(targetOrigin))") }
        var next = request
        next.url = target
        let becomesGet =
            (status.code == 303 && request.method != .head)
            || ([301, 302].contains(status.code) && request.method == .post)
        if becomesGet {
            next.method = .get
            next.body = nil
            // Fields that speak about a body go with it.
            let ofContent: [HTTPField.Name] = [
                .contentType, .contentEncoding, .contentLanguage, .contentLocation, .contentLength,
            ]
            for name in ofContent { next.headerFields[name] = nil }
        }
        return next
    }
}
