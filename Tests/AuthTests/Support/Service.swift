import ChappieAuth
import ChappieCore
import ChappieTesting
import FoundationEssentials
import HTTPTypes
import Synchronization

/// An issuer and a backend in memory: each path plays its list of answers, the last one for ever.
final class Service: Sendable {
    static let usercode = "/api/accounts/deviceauth/usercode"
    static let poll = "/api/accounts/deviceauth/token"
    static let token = "/oauth/token"
    static let revoke = "/oauth/revoke"
    static let backend = "/backend-api/codex/models"

    static let endpoints = ChappieEndpoints(
        issuer: URL(string: "https://issuer.test")!, backend: URL(string: "https://backend.test/backend-api")!)
    static let backendRequest = HTTPExchangeRequest(url: URL(string: "https://backend.test/backend-api/codex/models")!)

    private struct State {
        var answers: [String: [ScriptedHTTPAnswer]] = [:]
        var requests: [HTTPExchangeRequest] = []
        var watchers: [(path: String, count: Int, continuation: CheckedContinuation<Void, Never>)] = []
    }

    private let state = Mutex(State())

    init(_ answers: [String: [ScriptedHTTPAnswer]] = [:]) { state.withLock { $0.answers = answers } }

    var transport: ScriptedHTTPTransport {
        ScriptedHTTPTransport { [weak self] request in self?.answer(request) ?? .response(status: .internalServerError)
        }
    }

    func play(_ path: String, _ answers: ScriptedHTTPAnswer...) { state.withLock { $0.answers[path] = answers } }

    func requests(_ path: String) -> [HTTPExchangeRequest] {
        state.withLock { $0.requests.filter { $0.url.path() == path } }
    }

    func count(_ path: String) -> Int { requests(path).count }

    /// Returns as soon as `path` has been asked `count` times.
    func waitForRequests(_ path: String, count: Int) async {
        await withCheckedContinuation { continuation in
            let isThere = state.withLock { state in
                if state.requests.count(where: { $0.url.path() == path }) >= count { return true }
                state.watchers.append((path, count, continuation))
                return false
            }
            if isThere { continuation.resume() }
        }
    }

    private func answer(_ request: HTTPExchangeRequest) -> ScriptedHTTPAnswer {
        let path = request.url.path()
        let (answer, watchers) = state.withLock { state in
            state.requests.append(request)
            let count = state.requests.count { $0.url.path() == path }
            let content = state.watchers.filter { $0.path == path && $0.count <= count }
            state.watchers.removeAll { $0.path == path && $0.count <= count }
            var answers = state.answers[path] ?? []
            let answer = answers.count > 1 ? answers.removeFirst() : answers.first
            state.answers[path] = answers
            return (answer, content)
        }
        for watcher in watchers { watcher.continuation.resume() }
        return answer ?? .response(status: .notFound)
    }
}

extension ScriptedHTTPAnswer {
    static func json(_ text: String, status: HTTPResponse.Status = .ok) -> ScriptedHTTPAnswer {
        .response(status: status, headerFields: [.contentType: "application/json"], body: text)
    }

    static func tokens(_ auth: SeededAuth) -> ScriptedHTTPAnswer { .json(auth.tokenAnswer) }

    static func error(_ status: HTTPResponse.Status, _ code: String, _ message: String = "No.") -> ScriptedHTTPAnswer {
        .json(#"{"error":{"code":"\#(code)","message":"\#(message)"}}"#, status: status)
    }

    static func page(_ status: HTTPResponse.Status) -> ScriptedHTTPAnswer {
        .response(status: status, headerFields: [.contentType: "text/html"], body: "<html><body>Portal</body></html>")
    }

    /// Waits for the gate before the head.
    func after(_ gate: ScriptedGate) -> ScriptedHTTPAnswer {
        var answer = self
        answer.beforeHead = [.wait(until: gate)]
        return answer
    }

    static let ok = ScriptedHTTPAnswer.json("{}")
    static let refused = ScriptedHTTPAnswer.json(
        #"{"error":{"message":"Provided authentication token is expired.","code":"token_expired"},"status":401}"#,
        status: .unauthorized)
    static let lost = ScriptedHTTPAnswer.failure(
        ChappieTransportError(
            .connectionLost, stage: .responseHead, host: "issuer.test", reason: "the connection closed"))
    static let deviceCode = ScriptedHTTPAnswer.json(
        #"{"device_auth_id":"deviceauth_1","user_code":"ABCD-12345","interval":"5"}"#)
    static let pending = ScriptedHTTPAnswer.error(.forbidden, "deviceauth_authorization_pending")
    static let approved = ScriptedHTTPAnswer.json(
        #"{"status":"success","authorization_code":"ac_secret_1","code_challenge":"c","code_verifier":"verifier_0123456789abcdefghijklmnopqrstuvwxyz_secret"}"#
    )
}
