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
    public init(entropy: any Entropy) { self.entropy = entropy }

    /// Accepts requests from now on. They have a meaning once the port is known.
    public func open(_ requests: CallbackRequests) { self.requests.withLock { $0 = requests } }

    /// Returns an address on this machine that leads a browser to the page once, or `nil` if the system returns no
    /// random bytes.
    public func start() -> URL? {
        guard let bytes = try? entropy.bytes(32) else { return nil }
        return requests.withLock { $0?.start(Secret(Base64URL.encode(bytes))) }.flatMap { URL(string: $0) }
    }

    /// Whether the browser has returned.
    public var isOver: Bool { approval.isFulfilled }

    /// Handles the head of a request to the listener, and returns the complete response.
    public func answer(_ head: [UInt8], from peer: CallbackPeer) -> [UInt8] {
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
    public func value() async throws -> CallbackRequests.Approval { try await approval.value() }

    /// Waits for the browser's last page.
    public func shownEnd() async throws { try await end.value() }

    private func publish(_ requests: CallbackRequests?) {
        if let outcome = requests?.outcome { approval.fulfil(outcome.mapError { $0 }) }
        if requests?.hasShownEnd == true { end.fulfil(.success(())) }
    }
}

extension ChappieAuthError {
    static let otherGrant = unknown("These endpoints have another kind of sign-in.")
    static let noCallbackAwaited = wrongCallbackAddress("No sign-in waits for an address now.")
}

/// A browser's way to the sign-in page and back to this machine (RFC 8252, 7.3).
///
/// It listens from the moment it is created, so that the page can name the port.
struct BrowserVisit: Sendable {
    /// The place on this machine to which the browser returns.
    struct Destination: Sendable {
        /// The ports to try, in order. 0 lets the system choose one.
        let ports: [Int]
        /// The host in the redirect address, which is a name of this machine.
        let host: String
        let path: String
    }

    /// The limit for the user's part.
    static let patience = Duration.seconds(15 * 60)
    /// The limit for the delivery of the browser's last page after its return.
    private static let courtesy = Duration.milliseconds(1500)

    let redirectURI: String
    private let clock: any ChappieClock
    private let listening: any CallbackListening
    private let callback: BrowserCallback
    private let requests: CallbackRequests

    /// Creates a visit, and begins to listen.
    ///
    /// - Parameter state: The unpredictable value that identifies the browser's return.
    /// - Throws: ``ChappieAuthError/callbackUnavailable(_:)`` if no port is free.
    init(
        to destination: Destination, state: Secret, _ ports: BrowserSignInPorts, _ clock: any ChappieClock
    ) throws(ChappieAuthError) {
        let callback = BrowserCallback(entropy: ports.entropy)
        do {
            listening = try ports.listener.listen(at: destination.ports) { callback.answer($0, from: $1) }
        } catch {
            throw .callbackUnavailable(error.errorDescription ?? "No port of this machine is free.")
        }
        self.callback = callback
        self.clock = clock
        requests = CallbackRequests(
            port: listening.port, path: destination.path, state: state, host: destination.host)
        redirectURI = requests.redirectURI
    }

    /// Shows the page, and returns when the browser has returned.
    ///
    /// - Parameters:
    ///   - page: The page for the user.
    ///   - ownPage: The same page for a browser that this program starts.
    /// - Throws: ``ChappieAuthError``, and `CancellationError`.
    func approval(
        of page: URL, opening ownPage: URL, onPage: @Sendable (ChappieDeviceCode, BrowserCallback) async -> Void,
        onReturn: @Sendable (ChappieDeviceCode) async -> Void
    ) async throws -> CallbackRequests.Approval {
        var requests = requests
        requests.page = ownPage.absoluteString
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

    /// Frees the port. `leave` receives the work that remains once the browser has returned, which is to deliver its
    /// last page.
    func close(_ leave: @Sendable (Task<Void, Never>) -> Void) {
        guard callback.isOver else { return listening.close() }
        leave(
            Task.detached { [clock, listening, callback] in
                _ = try? await withDeadline(Self.courtesy, clock: clock, late: CancellationError()) {
                    try await callback.shownEnd()
                }
                listening.close()
                await listening.closed()
            })
    }
}

extension BrowserSignInPorts {
    /// Returns 32 random bytes as text, as PKCE requires (RFC 7636, 4.1).
    func random() throws -> Secret { Secret(Base64URL.encode(try entropy.bytes(32))) }

    /// Returns the digest of a PKCE verifier (RFC 7636, 4.2).
    func challenge(of verifier: Secret) throws(ChappieAuthError) -> String {
        do {
            return Base64URL.encode(try cryptography.sha256(verifier.withBytes(Array.init)))
        } catch {
            throw .unknown("The system's cryptography failed (\(type(of: error))).")
        }
    }
}
