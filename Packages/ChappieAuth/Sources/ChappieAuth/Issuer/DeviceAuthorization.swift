@_spi(ChappieInternals) import ChappieCore
import HTTPTypes

/// The device grant before its first step: it can ask for a code, and nothing else.
///
/// Answering consumes it and gives the next step, so that a flow can't be polled before it was started.
struct DeviceAuthorization: ~Copyable {
    private let endpoints: ChappieEndpoints

    init(_ endpoints: ChappieEndpoints) { self.endpoints = endpoints }

    /// Asks for a code. Sign-in carries a content type and an accept header, no originator and no user agent.
    var request: HTTPExchangeRequest {
        Self.request(
            endpoints.profile.deviceUserCodeURL, ["client_id": .string(endpoints.registration.clientID)])
    }

    /// Takes the answer.
    ///
    /// - Parameters:
    ///   - now: the wall clock, for ``ChappieDeviceCode/expiresAt`` only.
    ///   - elapsed: the clock that deadlines are measured with.
    /// - Throws: ``ChappieAuthError``; 404 is ``ChappieAuthError/authorizationDenied(_:)`` with a sentence that says
    ///   where device sign-in is switched on.
    consuming func receivedAnswer(
        _ answer: IssuerAnswer, now: Date, elapsed: Duration
    ) throws(ChappieAuthError) -> DeviceAuthorizationPolling {
        let host = endpoints.profile.issuer.hostAndPort
        if answer.status == 404 { throw .authorizationDenied(Self.switchedOff(host: host)) }
        guard answer.isSuccess else { throw answer.authError(host: host) }
        guard let answer = DeviceCodeAnswer(answer, now: now) else { throw .invalidResponse }
        return DeviceAuthorizationPolling(endpoints: endpoints, answer: answer, now: now, elapsed: elapsed)
    }

    static func request(_ url: URL, _ body: ChappieJSON) -> HTTPExchangeRequest {
        HTTPExchangeRequest(
            method: .post, url: url, headerFields: [.contentType: "application/json", .accept: "*/*"],
            body: .init(bytes: body.serializedBytes()))
    }

    private static func switchedOff(host: String) -> String {
        "Signing in with a device code is switched off. Switch it on in ChatGPT under Settings, Security, \"Enable device "
            + "code authorization for Codex\" (https://chatgpt.com/#settings/Security), and start again. If it is on "
            + "already, check the issuer address: \(host) does not offer device sign-in."
    }
}

/// The device grant once there is a code: asks at once, then after every interval, until the user has decided.
///
/// Time comes in as an argument and is never the wall clock, so setting that changes nothing here.
struct DeviceAuthorizationPolling: ~Copyable {
    /// The step that follows an answer.
    enum Step: Sendable {
        /// Wait this long (never past the deadline), then send ``DeviceAuthorizationPolling/request`` again.
        case wait(Duration)
        /// The user approved.
        case approved(AuthorizationCode)
        /// It is over.
        case failed(ChappieAuthError)
    }

    /// This many answers in a row that were no answer end the sign-in: about a minute without a network.
    static let maximumConsecutiveFailures = 12

    /// The code to show to the user.
    let code: ChappieDeviceCode
    private let endpoints: ChappieEndpoints
    private let deviceAuthID: Secret
    /// In ``ChappieClock/elapsed`` time.
    private let deadline: Duration
    private let lifetimeIsTheServers: Bool
    private var interval: Duration
    private var failures = 0

    init(endpoints: ChappieEndpoints, answer: DeviceCodeAnswer, now: Date, elapsed: Duration) {
        let lifetime = answer.lifetime ?? DeviceCodeAnswer.maximumLifetime
        self.endpoints = endpoints
        deviceAuthID = answer.deviceAuthID
        deadline = elapsed + lifetime
        lifetimeIsTheServers = answer.lifetime != nil
        interval = answer.interval
        code = ChappieDeviceCode(
            userCode: answer.userCode, verificationURL: endpoints.profile.deviceVerificationURL,
            expiresAt: now.addingTimeInterval(lifetime.seconds), pollInterval: answer.interval)
    }

    /// Asks whether the user has approved.
    var request: HTTPExchangeRequest {
        DeviceAuthorization.request(
            endpoints.profile.deviceTokenURL,
            ["device_auth_id": .string(deviceAuthID.text), "user_code": .string(code.userCode)])
    }

    /// Takes an answer. 403 and 404 mean "not yet", whatever the body says.
    mutating func receivedAnswer(_ answer: IssuerAnswer, elapsed: Duration) -> Step {
        switch answer.status {
        case 200..<300: return receivedSuccess(answer, elapsed: elapsed)
        case 403, 404: return pending(elapsed: elapsed)
        case 429: return slowDown(answer.retryAfter, elapsed: elapsed)
        case 500...: return failed(error(of: answer), elapsed: elapsed)
        default: return receivedRefusal(answer, elapsed: elapsed)
        }
    }

    /// Takes a failure to get an answer at all.
    mutating func failedToReceive(_ failure: IssuerClient.Failure, elapsed: Duration) -> Step {
        failure.isTransient ? failed(failure.authError, elapsed: elapsed) : .failed(failure.authError)
    }

    private mutating func receivedSuccess(_ answer: IssuerAnswer, elapsed: Duration) -> Step {
        guard let object = answer.object else { return .failed(.invalidResponse) }
        if let code = Secret(token: object["authorization_code"]?.string),
            let verifier = Secret(token: object["code_verifier"]?.string)
        {
            return .approved(
                AuthorizationCode(
                    code: code, verifier: verifier,
                    redirectURI: endpoints.profile.deviceCallbackURL.absoluteString, grant: .deviceCode))
        }
        // Not seen on the real service; a success that says "pending" is still not a refusal.
        let word = object["status"]?.string?.lowercased() ?? ""
        return word.hasSuffix("pending") ? pending(elapsed: elapsed) : .failed(.invalidResponse)
    }

    /// The words of RFC 8628, 3.5, should they come with another status than this service's own 403.
    private mutating func receivedRefusal(_ answer: IssuerAnswer, elapsed: Duration) -> Step {
        let error = IssuerError(answer, secrets: [deviceAuthID])
        switch error.code {
        case "authorization_pending"?, "deviceauth_authorization_pending"?: return pending(elapsed: elapsed)
        case "slow_down"?: return slowDown(nil, elapsed: elapsed)
        case "expired_token"?, "expired_device_code"?, "deviceauth_expired"?: return .failed(.expiredDeviceCode)
        case "access_denied"?, "authorization_denied"?, "deviceauth_denied"?, "missing_codex_entitlement"?:
            return .failed(.authorizationDenied(error.message ?? "The sign-in was refused."))
        default: return .failed(self.error(of: answer))
        }
    }

    private mutating func pending(elapsed: Duration) -> Step {
        failures = 0
        return wait(interval, elapsed: elapsed)
    }

    /// RFC 8628, 3.5: five seconds more from now on; and once as long as the server asks, if that is longer.
    private mutating func slowDown(_ retryAfter: Duration?, elapsed: Duration) -> Step {
        failures = 0
        interval = min(interval + .seconds(5), .seconds(DeviceCodeAnswer.intervals.upperBound))
        return wait(max(interval, retryAfter ?? .zero), elapsed: elapsed)
    }

    private mutating func failed(_ error: ChappieAuthError, elapsed: Duration) -> Step {
        failures += 1
        return failures < Self.maximumConsecutiveFailures ? wait(interval, elapsed: elapsed) : .failed(error)
    }

    private func wait(_ duration: Duration, elapsed: Duration) -> Step {
        let left = deadline - elapsed
        guard left > .zero else { return .failed(lifetimeIsTheServers ? .expiredDeviceCode : .pollingTimeout) }
        return .wait(min(duration, left))
    }

    private func error(of answer: IssuerAnswer) -> ChappieAuthError {
        answer.authError(host: endpoints.profile.issuer.hostAndPort, secrets: [deviceAuthID])
    }
}

extension Duration {
    /// In seconds, as the calendar's types want them.
    var seconds: TimeInterval { Double(components.seconds) + Double(components.attoseconds) / 1e18 }
}

/// The first answer of the device grant, read with more tolerance than the Codex CLI has.
struct DeviceCodeAnswer: Sendable {
    /// At most this long, whatever the server says.
    static let maximumLifetime = Duration.seconds(15 * 60)
    static let defaultInterval = 5
    static let intervals = 1...60

    let deviceAuthID: Secret
    let userCode: String
    let interval: Duration
    /// How long the code is good for, when the server said something believable about it.
    let lifetime: Duration?

    /// - Returns: `nil` when this is not JSON, or when the id or the code is missing or not fit to be used.
    init?(_ answer: IssuerAnswer, now: Date) {
        guard let object = answer.object, let id = UntrustedText.token(object["device_auth_id"]?.string, limit: 4096),
            let code = UntrustedText.token(
                (object["user_code"]?.string ?? object["usercode"]?.string)?.trimmed, limit: 64)
        else { return nil }
        deviceAuthID = Secret(id)
        userCode = code
        interval = .seconds(Self.interval(object["interval"]))
        lifetime = Self.lifetime(object, serverNow: answer.date ?? now)
    }

    /// Seconds as a string (what the service sends), as a number, or absent; nonsense counts as absent.
    static func interval(_ value: ChappieJSON?) -> Int {
        let number = value?.double ?? value?.string.flatMap { Double($0.trimmed) }
        guard let number, number.isFinite, number >= 0 else { return defaultInterval }
        return Int(min(max(number.rounded(.up), Double(intervals.lowerBound)), Double(intervals.upperBound)))
    }

    /// `expires_at` counts from the server's own clock where its answer told the time: this machine's wall clock may be
    /// wrong, and is used as the last resort. A code that seems to have expired before it came is such a wrong clock.
    private static func lifetime(_ object: ChappieJSONObject, serverNow: Date) -> Duration? {
        let expiresIn = object["expires_in"].flatMap { $0.double ?? $0.string.flatMap { Double($0.trimmed) } }
        let expiresAt = object["expires_at"].flatMap { value in
            value.string.flatMap(HTTPDate.rfc3339) ?? value.double.map(Date.init(timeIntervalSince1970:))
        }
        guard let seconds = expiresIn ?? expiresAt.map({ $0.timeIntervalSince(serverNow) }), seconds.isFinite,
            seconds > 0
        else { return nil }
        return seconds > 15 * 60 + 60 ? nil : min(.seconds(seconds), maximumLifetime)
    }
}

/// Walks the device grant from the first request to the authorization code.
struct DeviceCodeSignIn: Sendable {
    let endpoints: ChappieEndpoints
    let issuer: IssuerClient

    /// - Parameters:
    ///   - onCode: called once, when there is a code to show.
    ///   - onPolling: called once, when the service is asked for the first time.
    /// - Throws: ``ChappieAuthError``, `cancelledSignIn` among them.
    @concurrent
    func run(
        onCode: @Sendable (ChappieDeviceCode) async -> Void, onPolling: @Sendable (ChappieDeviceCode) async -> Void
    ) async throws(ChappieAuthError) -> AuthorizationCode {
        let clock = issuer.clock
        let start = DeviceAuthorization(endpoints)
        let answer: IssuerAnswer
        do { answer = try await issuer.send(start.request) } catch { throw error.authError }
        var polling = try start.receivedAnswer(answer, now: clock.now, elapsed: clock.elapsed)
        guard !Task.isCancelled else { throw .cancelledSignIn }
        await onCode(polling.code)
        var isFirst = true
        while true {
            let request = polling.request
            async let poll = self.answer(to: request)
            if isFirst { await onPolling(polling.code) }
            isFirst = false
            let step =
                switch await poll {
                case .success(let answer): polling.receivedAnswer(answer, elapsed: clock.elapsed)
                case .failure(let failure): polling.failedToReceive(failure, elapsed: clock.elapsed)
                }
            guard !Task.isCancelled else { throw .cancelledSignIn }
            switch step {
            case .approved(let code): return code
            case .failed(let error): throw error
            case .wait(let duration):
                do { try await clock.sleep(for: duration) } catch { throw .cancelledSignIn }
            }
        }
    }

    private func answer(to request: HTTPExchangeRequest) async -> Result<IssuerAnswer, IssuerClient.Failure> {
        do { return .success(try await issuer.send(request)) } catch { return .failure(error) }
    }
}
