@_spi(ChappieInternals) import ChappieCore
import Foundation
import Synchronization

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// The sessions under one policy. There is one for each proxy, since a session can't change its proxy.
///
/// The environment and the extra CA file are read for the first request. A failure is not remembered, since the user
/// may fix the file before the next request.
final class SessionPool: Sendable {
    struct Session: Sendable {
        let urlSession: URLSession
        let delegate: SessionDelegate
    }

    private struct Kept {
        var settings: SessionSettings?
        var sessions: [ProxySelection?: Session] = [:]
    }

    private let policy: ChappieNetworkPolicy
    private let kept = Mutex(Kept())

    init(policy: ChappieNetworkPolicy) { self.policy = policy }

    /// Releases the sessions after their exchanges have ended.
    func release() {
        for session in kept.withLock({ $0.sessions.values }) { session.urlSession.finishTasksAndInvalidate() }
    }

    /// Returns the session for requests to `origin`.
    ///
    /// - Throws: ``ChappieTransportError`` with stage `.configuration` if the policy can't be followed.
    func session(to origin: Origin) throws(ChappieTransportError) -> Session {
        try kept.withLock { kept throws(ChappieTransportError) in
            let settings = if let known = kept.settings { known } else { try SessionSettings(policy) }
            kept.settings = settings
            let proxy = try ProxySelection(policy.proxy, for: origin, environment: settings.variables)
            if let session = kept.sessions[proxy] { return session }
            let configuration = URLSessionConfiguration.ephemeral
            configuration.urlCache = nil
            configuration.requestCachePolicy = .reloadIgnoringLocalCacheData
            configuration.httpCookieStorage = nil
            configuration.httpCookieAcceptPolicy = .never
            configuration.httpShouldSetCookies = false
            configuration.urlCredentialStorage = nil
            // The transport applies its own deadlines, and the total time of a stream is not limited.
            configuration.timeoutIntervalForRequest = 7 * 86400
            configuration.timeoutIntervalForResource = 7 * 86400
            try settings.apply(to: configuration, proxy: proxy, for: origin)
            let delegate = SessionDelegate(settings)
            let urlSession = URLSession(configuration: configuration, delegate: delegate, delegateQueue: nil)
            let session = Session(urlSession: urlSession, delegate: delegate)
            if SessionSettings.keepsConnections { kept.sessions[proxy] = session }
            return session
        }
    }
}

/// A delegate that passes the events of a session's tasks to their exchanges, one after the other.
final class SessionDelegate: NSObject, URLSessionDataDelegate {
    private let settings: SessionSettings
    private let transfers = Mutex<[Int: SessionTransfer]>([:])

    init(_ settings: SessionSettings) { self.settings = settings }

    func deliver(eventsOf task: URLSessionTask, to transfer: SessionTransfer) {
        transfers.withLock { $0[task.taskIdentifier] = transfer }
    }

    private func transfer(of task: URLSessionTask) -> SessionTransfer? {
        transfers.withLock { $0[task.taskIdentifier] }
    }

    func urlSession(
        _ session: URLSession, task: URLSessionTask, didSendBodyData bytesSent: Int64, totalBytesSent: Int64,
        totalBytesExpectedToSend: Int64
    ) {
        transfer(of: task)?.sentBody(totalBytesSent)
    }

    /// Prevents a redirect, because `RedirectRule` handles redirects. Without a new request, the redirect itself is the
    /// response.
    func urlSession(
        _ session: URLSession, task: URLSessionTask, willPerformHTTPRedirection response: HTTPURLResponse,
        newRequest request: URLRequest, completionHandler: @escaping @Sendable (URLRequest?) -> Void
    ) {
        completionHandler(nil)
    }

    func urlSession(
        _ session: URLSession, dataTask: URLSessionDataTask, didReceive response: URLResponse,
        completionHandler: @escaping @Sendable (URLSession.ResponseDisposition) -> Void
    ) {
        transfer(of: dataTask)?.received(response)
        completionHandler(.allow)
    }

    func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
        transfer(of: dataTask)?.received(data)
    }

    func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
        transfers.withLock { $0.removeValue(forKey: task.taskIdentifier) }?.ended(error, response: task.response)
        if !SessionSettings.keepsConnections { session.finishTasksAndInvalidate() }
    }

    #if canImport(Security)
        func urlSession(
            _ session: URLSession, task: URLSessionTask, didReceive challenge: URLAuthenticationChallenge,
            completionHandler: @escaping @Sendable (URLSession.AuthChallengeDisposition, URLCredential?) -> Void
        ) {
            let (disposition, credential) = settings.answer(to: challenge)
            if disposition == .cancelAuthenticationChallenge { transfer(of: task)?.refusedCertificate() }
            completionHandler(disposition, credential)
        }
    #endif
}
