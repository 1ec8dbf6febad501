@_spi(ChappieInternals) import ChappieCore
import HTTPTypes

/// The device grant, from the arrival of the code. It polls after every interval until the user has decided. The first
/// poll also waits, because no user has approved a code that has only just been shown (RFC 8628, 3.5).
///
/// It is created from the answer that contains the code, so that it can't be polled before it has started. Times are
/// arguments. The wall clock never measures a deadline, so setting it has no effect here.
struct DeviceAuthorization: ~Copyable {
    /// The next step after an answer.
    enum Step: Sendable {
        /// The caller waits this long, never past the deadline, and then sends ``DeviceAuthorization/request`` again.
        case wait(Duration)
        /// The user approved.
        case approved(AuthorizationCode)
        /// The sign-in has failed.
        case failed(ChappieAuthError)
    }

    /// The number of consecutive failures that ends the sign-in. It corresponds to about a minute without a network.
    static let maximumConsecutiveFailures = 12
    /// The longest lifetime of a code, whatever the server sets.
    private static let maximumLifetime = Duration.seconds(15 * 60)
    /// The limit of one request. A poll ends when its code expires, but its limit is at least `lastPollLimit`.
    static let requestLimit = Duration.seconds(30)
    private static let lastPollLimit = Duration.seconds(5)
    private static let intervals = 1.0...60

    /// The code to show to the user.
    let code: ChappieDeviceCode
    /// The wait before the first poll. It is the interval, or zero if the server specifies an interval of zero.
    let firstWait: Duration
    private let endpoints: ChappieEndpoints
    private let deviceAuthID: Secret
    /// The deadline in ``ChappieClock/elapsed`` time.
    private let deadline: Duration
    private let lifetimeIsTheServers: Bool
    private var interval: Duration
    private var failures = 0

    /// Returns the request for a code. Requests of a sign-in have a content type and an accept header, but no
    /// originator and no user agent.
    static func codeRequest(_ endpoints: ChappieEndpoints) -> HTTPExchangeRequest {
        .json(["client_id": .string(endpoints.registration.clientID)], to: endpoints.deviceUserCodeURL)
    }

    /// Creates an authorization from the answer to ``codeRequest(_:)``, with more tolerance than the Codex CLI.
    ///
    /// - Parameter now: The wall clock, only for ``ChappieDeviceCode/expiresAt``.
    /// - Throws: ``ChappieAuthError``. For 404 it is ``ChappieAuthError/authorizationDenied(_:)`` with a sentence that
    ///   explains how to enable device sign-in.
    init(_ endpoints: ChappieEndpoints, _ answer: IssuerResponse, now: Date, elapsed: Duration) throws(ChappieAuthError)
    {
        let host = endpoints.issuer.hostAndPort
        if answer.status == 404 { throw .authorizationDenied(Self.switchedOff(host: host)) }
        guard answer.isSuccess else { throw answer.signInError(host: host) }
        guard let object = answer.object, let id = UntrustedText.token(object["device_auth_id"]?.string, limit: 4096),
            let userCode = UntrustedText.token(
                (object["user_code"]?.string ?? object["usercode"]?.string)?.trimmed, limit: 64)
        else { throw .invalidResponse }
        let serversLifetime = Self.lifetime(object, serverNow: answer.date ?? now)
        let lifetime = serversLifetime ?? Self.maximumLifetime
        self.endpoints = endpoints
        deviceAuthID = Secret(id)
        deadline = elapsed + lifetime
        lifetimeIsTheServers = serversLifetime != nil
        interval = Self.interval(object["interval"])
        firstWait = Self.number(object["interval"]) == 0 ? .zero : min(interval, lifetime)
        code = ChappieDeviceCode(
            userCode: userCode, verificationURL: endpoints.deviceVerificationURL,
            expiresAt: now.addingTimeInterval(lifetime.inSeconds), pollInterval: interval)
    }

    /// The request that asks whether the user has approved.
    var request: HTTPExchangeRequest {
        .json(
            ["device_auth_id": .string(deviceAuthID.text), "user_code": .string(code.userCode)],
            to: endpoints.deviceTokenURL)
    }

    /// Returns the time that a poll may take.
    func pollLimit(elapsed: Duration) -> Duration {
        min(Self.requestLimit, max(deadline - elapsed, Self.lastPollLimit))
    }

    /// Handles an answer. 403 and 404 mean "not yet", unless the body has a code with another meaning. A web page that
    /// blocks the service may be temporary or permanent.
    mutating func receivedAnswer(_ answer: IssuerResponse, elapsed: Duration) -> Step {
        switch answer.status {
        case 200..<300: receivedSuccess(answer, elapsed: elapsed)
        case 403 where answer.isWebPage: failed(error(of: answer), elapsed: elapsed)
        case 404 where answer.isWebPage: pending(elapsed: elapsed)
        case 429: slowDown(answer.retryAfter, elapsed: elapsed)
        case 500...: failed(error(of: answer), elapsed: elapsed)
        default: receivedRefusal(answer, elapsed: elapsed)
        }
    }

    /// Handles a failure to receive an answer.
    mutating func failedToReceive(_ reason: any Error, elapsed: Duration) -> Step {
        let isTransient = (reason as? ChappieTransportError)?.isTransient == true
        return isTransient ? failed(ChappieAuthError(reason), elapsed: elapsed) : .failed(ChappieAuthError(reason))
    }

    private mutating func receivedSuccess(_ answer: IssuerResponse, elapsed: Duration) -> Step {
        guard let object = answer.object else {
            return .failed(answer.isWebPage ? error(of: answer) : .invalidResponse)
        }
        if let code = Secret(token: object["authorization_code"]?.string),
            let verifier = Secret(token: object["code_verifier"]?.string)
        {
            return .approved(
                AuthorizationCode(
                    code: code, verifier: verifier,
                    redirectURI: endpoints.deviceCallbackURL.absoluteString, grant: .deviceCode))
        }
        // The real service has not been observed to send this. A success with the status "pending" is still not a
        // refusal.
        let word = object["status"]?.string?.lowercased() ?? ""
        return word.hasSuffix("pending") ? pending(elapsed: elapsed) : .failed(.invalidResponse)
    }

    /// Handles the codes of RFC 8628, 3.5, and those of this service.
    private mutating func receivedRefusal(_ answer: IssuerResponse, elapsed: Duration) -> Step {
        let error = answer.issuerError(secrets: [deviceAuthID])
        let isUsual = [403, 404].contains(answer.status)
        guard !isUsual || error.hasOwnCode else { return pending(elapsed: elapsed) }
        switch error.code {
        case "deviceauth_authorization_unknown": return pending(elapsed: elapsed)
        case let code? where code.hasSuffix("pending"): return pending(elapsed: elapsed)
        case "slow_down", "rate_limit_exceeded": return slowDown(answer.retryAfter, elapsed: elapsed)
        case "expired_token", "expired_device_code", "deviceauth_expired": return .failed(.expiredDeviceCode)
        case "access_denied", "authorization_denied", "deviceauth_denied":
            return .failed(.authorizationDenied(error.message ?? "The sign-in was refused."))
        case let code? where isUsual && SignInObstacle(error) == nil:
            let reason = error.message.map { "\($0) (\(code))" } ?? code
            return .failed(.authorizationDenied("The sign-in service refused: \(reason)"))
        default: return .failed(self.error(of: answer))
        }
    }

    private mutating func pending(elapsed: Duration) -> Step {
        failures = 0
        return wait(interval, elapsed: elapsed)
    }

    /// Increases the interval by five seconds from now on (RFC 8628, 3.5). The next wait is longer if the server asks
    /// for that.
    private mutating func slowDown(_ retryAfter: Duration?, elapsed: Duration) -> Step {
        failures = 0
        interval = min(interval + .seconds(5), .seconds(Self.intervals.upperBound))
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

    private func error(of answer: IssuerResponse) -> ChappieAuthError {
        answer.authError(host: endpoints.issuer.hostAndPort, secrets: [deviceAuthID])
    }

    // MARK: Reading the code's answer

    /// Reads the interval in seconds, which is a string (the service's form), a number, or absent. An invalid value
    /// counts as absent.
    private static func interval(_ value: ChappieJSON?) -> Duration {
        guard let number = number(value), number.isFinite, number >= 0 else { return .seconds(5) }
        return .seconds(min(max(number.rounded(.up), intervals.lowerBound), intervals.upperBound))
    }

    /// Returns the lifetime of the code, if the server sends a plausible one.
    ///
    /// `expires_at` is compared with the server's own clock if its answer had the date. This machine's wall clock may
    /// be wrong, so it is used only as the last resort. If a code seems to have expired before it arrived, that clock
    /// is wrong.
    private static func lifetime(_ object: ChappieJSONObject, serverNow: Date) -> Duration? {
        let expiresAt = object["expires_at"].flatMap { value in
            value.string.flatMap(HTTPDate.rfc3339) ?? value.double.map(Date.init(timeIntervalSince1970:))
        }
        guard let seconds = number(object["expires_in"]) ?? expiresAt?.timeIntervalSince(serverNow), seconds.isFinite,
            seconds > 0, seconds <= 15 * 60 + 60
        else { return nil }
        return min(.seconds(seconds), maximumLifetime)
    }

    private static func number(_ value: ChappieJSON?) -> Double? {
        value?.double ?? value?.string.flatMap { Double($0.trimmed) }
    }

    private static func switchedOff(host: String) -> String {
        "Signing in with a device code is switched off. Switch it on in ChatGPT under Settings, Security, \"Enable "
            + "device code authorization for Codex\" (https://chatgpt.com/#settings/Security), and start again. If it is on "
            + "already, check the issuer address: \(host) does not offer device sign-in."
    }
}

extension IssuerClient {
    /// Runs the device grant from the first request to the authorization code. Calls `onCode` when there is a code to
    /// show, and `onPolling` when the first poll is sent.
    @concurrent
    func authorizeDevice(
        _ endpoints: ChappieEndpoints, onCode: @Sendable (ChappieDeviceCode) async -> Void,
        onPolling: @Sendable (ChappieDeviceCode) async -> Void
    ) async throws(ChappieAuthError) -> AuthorizationCode {
        let answer: IssuerResponse
        do {
            answer = try await send(
                DeviceAuthorization.codeRequest(endpoints), within: DeviceAuthorization.requestLimit)
        } catch {
            throw ChappieAuthError(error)
        }
        var authorization = try DeviceAuthorization(endpoints, answer, now: clock.now, elapsed: clock.elapsed)
        guard !Task.isCancelled else { throw .cancelledSignIn }
        await onCode(authorization.code)
        var isFirst = true
        if authorization.firstWait > .zero { try await sleep(for: authorization.firstWait) }
        while true {
            let (request, limit) = (authorization.request, authorization.pollLimit(elapsed: clock.elapsed))
            async let poll = send(request, within: limit)
            if isFirst { await onPolling(authorization.code) }
            isFirst = false
            let step: DeviceAuthorization.Step
            do {
                let answer = try await poll
                step = authorization.receivedAnswer(answer, elapsed: clock.elapsed)
            } catch {
                step = authorization.failedToReceive(error, elapsed: clock.elapsed)
            }
            guard !Task.isCancelled else { throw .cancelledSignIn }
            switch step {
            case .approved(let code): return code
            case .failed(let error): throw error
            case .wait(let duration): try await sleep(for: duration)
            }
        }
    }
}
