@_spi(ChappieInternals) import ChappieCore
import HTTPTypes
import Synchronization

/// The cookies by which the backend's edge recognizes a client that it has checked. They are kept only in memory.
///
/// The official client keeps the same names for its backend, over https. No other cookie is kept, in particular none
/// that could identify a user to the service.
final class BackendCookies: Sendable {
    private struct Cookie {
        let name: String
        let value: String
        let path: String
        /// The time when the cookie expires, or `nil` if it does not expire.
        let end: Date?
    }

    private struct State {
        /// The number of sign-outs before the cookies arrived.
        var signOuts = 0
        var cookies: [Cookie] = []
    }

    private static let names: Set<String> = [
        "__cf_bm", "__cflb", "__cfruid", "__cfseq", "__cfwaitingroom", "_cfuvid", "cf_clearance", "cf_ob_info",
        "cf_use_ob",
    ]
    private static let prefix = "cf_chl_"
    /// The maximum number of cookies, because the server chooses the names with the prefix.
    private static let limit = 20
    private static let valueLimit = 4096

    private let origin: Origin?
    private let state = Mutex(State())

    /// Creates storage for the cookies of `backend`. It stays empty if the backend is not reached over https.
    init(backend: URL) { origin = Origin(backend).flatMap { $0.scheme == .https ? $0 : nil } }

    /// Returns the value of the `cookie` field for a request to `url`, or `nil` if there is none.
    ///
    /// - Parameter signOuts: The number of sign-outs so far. Cookies from before the last one are dropped.
    func field(for url: URL, at now: Date, signOuts: Int) -> String? {
        guard let origin, Origin(url) == origin else { return nil }
        let path = url.path()
        return state.withLock { state in
            if signOuts != state.signOuts { state = State(signOuts: signOuts) }
            state.cookies.removeAll { $0.end.map { $0 <= now } ?? false }
            let pairs = state.cookies.filter { Self.path($0.path, contains: path) }.map { "\($0.name)=\($0.value)" }
            return pairs.isEmpty ? nil : pairs.joined(separator: "; ")
        }
    }

    /// Keeps the cookies that an answer to a request for `url` sets.
    func received(_ fields: HTTPFields, from url: URL, at now: Date, signOuts: Int) {
        guard let origin, Origin(url) == origin else { return }
        let new = fields[values: .setCookie].compactMap { Self.cookie($0, of: origin.host, at: now) }
        guard !new.isEmpty else { return }
        state.withLock { state in
            if signOuts != state.signOuts { state = State(signOuts: signOuts) }
            for cookie in new {
                state.cookies.removeAll { $0.name == cookie.name && $0.path == cookie.path }
                state.cookies.append(cookie)
            }
            state.cookies = state.cookies.suffix(Self.limit)
        }
    }

    /// Reads a `set-cookie` field (RFC 6265, 5.2). Returns `nil` if the cookie is not to be kept.
    private static func cookie(_ text: String, of host: String, at now: Date) -> Cookie? {
        let parts = text.split(separator: ";", omittingEmptySubsequences: false).map(pair)
        guard let first = parts.first, let value = first.value,
            names.contains(first.name) || first.name.hasPrefix(prefix), first.name.utf8.allSatisfy(isPlain),
            value.utf8.count <= valueLimit, value.utf8.allSatisfy(isPlain)
        else { return nil }
        var (path, end) = ("/", Date?.none)
        var hasAge = false
        for part in parts.dropFirst() {
            switch (part.name.lowercased(), part.value) {
            case ("domain", let domain?):
                let domain = domain.trimmingPrefix(".").lowercased()
                guard host == domain || host.hasSuffix("." + domain) else { return nil }
            case ("path", let given?) where given.hasPrefix("/"): path = given
            case ("max-age", let seconds?):
                guard let seconds = Int(seconds) else { continue }
                hasAge = true
                end = now.addingTimeInterval(TimeInterval(min(seconds, 400 * 86_400)))
            case ("expires", let date?) where !hasAge: end = expiry(date)
            default: continue
            }
        }
        return Cookie(name: first.name, value: value, path: path, end: end)
    }

    private static func pair(_ part: Substring) -> (name: String, value: String?) {
        let halves = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(\.description)
        return (halves.first?.trimmed ?? "", halves.count > 1 ? halves[1].trimmed : nil)
    }

    /// Reads `Fri, 27 Nov 2026 05:00:00 GMT` and the edge's own `Fri, 27-Nov-26 05:00:00 GMT`.
    private static func expiry(_ text: String) -> Date? {
        var words = text.split { $0 == " " || $0 == "-" }.map(String.init)
        guard words.count == 6 else { return nil }
        if words[3].count == 2 { words[3] = "20" + words[3] }
        return HTTPDate.imfFixdate(words.joined(separator: " "))
    }

    /// Returns whether a byte may be in a cookie (RFC 6265, 4.1.1).
    private static func isPlain(_ byte: UInt8) -> Bool {
        (0x21...0x7E).contains(byte) && !"\",;\\".utf8.contains(byte)
    }

    private static func path(_ path: String, contains requested: String) -> Bool {
        requested.hasPrefix(path)
            && (path.hasSuffix("/") || requested.dropFirst(path.count).first.map { $0 == "/" } ?? true)
    }
}
