import ChappieCore
import FoundationEssentials

/// The device grant once there is a code: asks at once, then after every interval, until the person has decided.
///
/// Time comes in as an argument and is never the wall clock, so setting that changes nothing here.
struct DeviceAuthorizationPolling: ~Copyable {
    /// What to do after an answer.
    enum Step: Sendable {
        /// Wait this long (never past the deadline), then send ``DeviceAuthorizationPolling/request`` again.
        case wait(Duration)
        /// The person approved.
        case approved(AuthorizationCode)
        /// It is over.
        case failed(ChappieAuthError)
    }

    /// This many answers in a row that were no answer end the sign-in: about a minute without a network.
    static let maximumConsecutiveFailures = 12

    /// What to show the person.
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

    /// Asks whether the person has approved.
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
        default: return receivedRefusal(IssuerError(answer, secrets: [deviceAuthID]), elapsed: elapsed)
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
    private mutating func receivedRefusal(_ error: IssuerError, elapsed: Duration) -> Step {
        switch error.code {
        case "authorization_pending"?, "deviceauth_authorization_pending"?: return pending(elapsed: elapsed)
        case "slow_down"?: return slowDown(nil, elapsed: elapsed)
        case "expired_token"?, "expired_device_code"?, "deviceauth_expired"?: return .failed(.expiredDeviceCode)
        case "access_denied"?, "authorization_denied"?, "deviceauth_denied"?, "missing_codex_entitlement"?:
            return .failed(.authorizationDenied(error.message ?? "The sign-in was refused."))
        default: return .failed(error.authError(host: endpoints.profile.issuer.hostAndPort))
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
        IssuerError(answer, secrets: [deviceAuthID]).authError(host: endpoints.profile.issuer.hostAndPort)
    }
}

extension Duration {
    /// In seconds, as the calendar's types want them.
    var seconds: TimeInterval { Double(components.seconds) + Double(components.attoseconds) / 1e18 }
}
