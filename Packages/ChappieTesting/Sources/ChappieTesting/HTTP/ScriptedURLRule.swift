import ChappieCore
import FoundationEssentials
import HTTPTypes

/// The rules about URLs that every ``HTTPTransport`` and ``WebSocketTransport`` keeps, as far as a fake needs them.
enum ScriptedURLRule {
    static func usableHost(
        of url: URL, schemes: [String] = ["https", "http"]
    ) throws(ChappieTransportError) -> String {
        guard let host = url.host(), !host.isEmpty, let scheme = url.scheme?.lowercased(), schemes.contains(scheme)
        else {
            throw ChappieTransportError(
                .invalidURL, stage: .configuration, host: url.host() ?? "",
                reason: "the address begins with none of \(schemes.joined(separator: ", "))")
        }
        let isLoopback = host == "localhost" || host == "::1" || host.hasPrefix("127.")
        guard ["https", "wss"].contains(scheme) || isLoopback else {
            throw ChappieTransportError(
                .insecureURL, stage: .configuration, host: host, reason: "plain \(scheme) is only for this machine")
        }
        return host
    }

    /// Where `answer` sends the request on to; `nil` when it is no redirect.
    static func redirect(
        from request: HTTPExchangeRequest, by answer: ScriptedHTTPAnswer, host: String
    ) throws(ChappieTransportError) -> HTTPExchangeRequest? {
        guard [301, 302, 303, 307, 308].contains(answer.status.code), let location = answer.headerFields[.location]
        else { return nil }
        guard let target = URL(string: location, relativeTo: request.url)?.absoluteURL,
            target.scheme == request.url.scheme, target.host() == host, target.port == request.url.port
        else {
            throw ChappieTransportError(
                .redirectRefused, stage: .responseHead, host: host, reason: "the redirect leads to another origin")
        }
        var next = request
        next.url = target
        if answer.status.code < 307, request.method != .head {
            next.method = .get
            next.body = nil
        }
        return next
    }
}
