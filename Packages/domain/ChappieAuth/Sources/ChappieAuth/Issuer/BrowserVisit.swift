@_spi(ChappieInternals) public import ChappieCore
import Synchronization

/// The return of a browser to one sign-in. It connects the listener's threads, an address that the user pastes, and the
/// task that waits.
@_spi(ChappieInternals) public final class BrowserCallback: Sendable {
    private let requests: Mutex<CallbackRequests?> = Mutex(nil)
    private let approval = Promise<CallbackRequests.Approval>()
    private let end = Promise<Void>()

    private let entropy: any Entropy

    /// - Parameter entropy: The source of random bytes for the paths of ``start()``.
    init(entropy: any Entropy) { self.entropy = entropy }

    /// Accepts requests from now on. They have a meaning once the port is known.
    func open(_ requests: CallbackRequests) { self.requests.withLock { $0 = requests } }

    /// Returns an address on this machine that leads a browser to the page once, or `nil` if the system returns no
    /// random bytes.
    public func start() -> URL? {
        guard let bytes = try? entropy.bytes(32) else { return nil }
        return requests.withLock { $0?.start(Secret(Base64URL.encode(bytes))) }.flatMap { URL(string: $0) }
    }

    /// Whether the browser has returned.
    var isOver: Bool { approval.isFulfilled }

    /// Handles the head of a request to the listener, and returns the complete response.
    func answer(_ head: [UInt8], from peer: CallbackPeer) -> [UInt8] {
        requests.withLock { requests in
            let response = requests?.answer(head, from: peer) ?? []
            publish(requests)
            return response
        }
    }

    /// Accepts the address at which a browser on another machine has stopped.
    ///
    /// - Throws: ``ChappieAuthError/wrongCallbackAddress(_:)``. The sign-in continues.
    public func paste(_ address: String) throws(ChappieAuthError) {
        let result = requests.withLock { requests in
            Result { () throws(ChappieAuthError) in
                guard requests != nil else { throw .noCallbackAwaited }
                try requests?.paste(address)
                publish(requests)
            }
        }
        try result.get()
    }

    /// Waits until the browser has returned.
    ///
    /// - Throws: ``ChappieAuthError``, and `CancellationError`.
    func value() async throws -> CallbackRequests.Approval { try await approval.value() }

    /// Waits for the browser's last page.
    func shownEnd() async throws { try await end.value() }

    private func publish(_ requests: CallbackRequests?) {
        if let outcome = requests?.outcome { approval.fulfil(outcome.mapError { $0 }) }
        if requests?.hasShownEnd == true { end.fulfil(.success(())) }
    }
}

extension ChappieAuthError {
    static let otherGrant = unknown("These endpoints have another kind of sign-in.")
    static let noCallbackAwaited = wrongCallbackAddress("No sign-in waits for an address now.")
}

/// The redirect address of a sign-in, and the values that bind the browser's return to it.
@_spi(ChappieInternals) public struct RedirectBinding: Sendable {
    /// The address on this machine to which the authorization server sends the browser.
    public let redirectURI: String
    /// The unpredictable value that identifies the browser's return (RFC 6749, 10.12).
    public let state: Secret
    /// The PKCE verifier (RFC 7636, 4.1).
    public let verifier: Secret
    /// The SHA-256 digest of the verifier, as text (RFC 7636, 4.2).
    public let challenge: String

    /// Creates a binding of these values.
    public init(redirectURI: String, state: Secret, verifier: Secret, challenge: String) {
        self.redirectURI = redirectURI
        self.state = state
        self.verifier = verifier
        self.challenge = challenge
    }
}

/// A browser's way to the sign-in page and back to this machine (RFC 8252, 7.3).
///
/// It listens from the moment it is created, so that the page can name the port.
@_spi(ChappieInternals) public struct BrowserVisit: Sendable {
    /// The limit for the user's part.
    public static let patience = Duration.seconds(15 * 60)
    /// The limit for the delivery of the browser's last page after its return.
    private static let courtesy = Duration.milliseconds(1500)

    /// The redirect address of this visit, and its values.
    public let binding: RedirectBinding
    private let clock: any ChappieClock
    private let listening: any CallbackListening
    private let callback: BrowserCallback
    private let requests: CallbackRequests

    /// Creates a visit, and begins to listen.
    ///
    /// - Parameters:
    ///   - ports: The ports to try, in order. 0 lets the system choose one.
    ///   - host: The host in the redirect address, which is a name of this machine. Default: 127.0.0.1.
    ///   - path: The path of the redirect address.
    ///   - issuer: The authorization server. An answer that names another one ends the sign-in. Default: answers name
    ///     none.
    /// - Throws: ``ChappieAuthError``: `callbackUnavailable` if no port is free, `secureRandomFailed`, or `unknown` if
    ///   the system's cryptography fails.
    public init(
        at ports: [Int], host: String = "127.0.0.1", path: String, issuer: CallbackRequests.Issuer? = nil,
        _ platform: BrowserSignInPorts, _ clock: any ChappieClock
    ) throws {
        let (verifier, state) = (try platform.random(), try platform.random())
        let challenge = try platform.challenge(of: verifier)
        let callback = BrowserCallback(entropy: platform.entropy)
        do {
            listening = try platform.listener.listen(at: ports) { callback.answer($0, from: $1) }
        } catch {
            throw ChappieAuthError.callbackUnavailable(error.errorDescription ?? "No port of this machine is free.")
        }
        self.callback = callback
        self.clock = clock
        requests = CallbackRequests(port: listening.port, path: path, state: state, issuer: issuer, host: host)
        binding = RedirectBinding(
            redirectURI: requests.redirectURI, state: state, verifier: verifier, challenge: challenge)
    }

    /// Shows the page, and returns when the browser has returned.
    ///
    /// - Parameters:
    ///   - page: The page for the user.
    ///   - ownPage: The same page for a browser that this program starts. Default: `page`.
    /// - Throws: ``ChappieAuthError``, and `CancellationError`.
    public func approval(
        of page: URL, opening ownPage: URL? = nil,
        onPage: @Sendable (ChappieDeviceCode, BrowserCallback) async -> Void,
        onReturn: @Sendable (ChappieDeviceCode) async -> Void = { _ in }
    ) async throws -> CallbackRequests.Approval {
        var requests = requests
        requests.page = (ownPage ?? page).absoluteString
        callback.open(requests)
        let code = ChappieDeviceCode(
            userCode: "", verificationURL: page, expiresAt: clock.now.addingTimeInterval(Self.patience.inSeconds))
        try Task.checkCancellation()
        await onPage(code, callback)
        let approval = try await withDeadline(
            Self.patience, clock: clock, late: ChappieAuthError.callbackTimeout
        ) { try await callback.value() }
        await onReturn(code)
        return approval
    }

    /// Frees the port. If the browser has returned, this first waits until it has its last page, for at most 1.5 s.
    public func close() async {
        guard callback.isOver else { return listening.close() }
        _ = try? await withDeadline(Self.courtesy, clock: clock, late: CancellationError()) {
            try await callback.shownEnd()
        }
        listening.close()
        await listening.closed()
    }

    /// Frees the port. `leave` receives the work that remains once the browser has returned, which is to deliver its
    /// last page.
    func close(_ leave: @Sendable (Task<Void, Never>) -> Void) {
        guard callback.isOver else { return listening.close() }
        leave(Task.detached { await close() })
    }
}

extension BrowserSignInPorts {
    /// Returns 32 random bytes as text, as PKCE requires (RFC 7636, 4.1).
    func random() throws -> Secret { Secret(Base64URL.encode(try entropy.bytes(32))) }

    /// Returns the digest of a PKCE verifier (RFC 7636, 4.2).
    fileprivate func challenge(of verifier: Secret) throws(ChappieAuthError) -> String {
        do {
            return Base64URL.encode(try cryptography.sha256(verifier.withBytes(Array.init)))
        } catch {
            throw .unknown("The system's cryptography failed (\(type(of: error))).")
        }
    }
}
