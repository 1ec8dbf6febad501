import ChappieCore
import FoundationEssentials

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
        guard let object = answer.object, let id = SafeText.token(object["device_auth_id"]?.string, limit: 4096),
            let code = SafeText.token(
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
            value.string.flatMap(WireDate.rfc3339) ?? value.double.map(Date.init(timeIntervalSince1970:))
        }
        guard let seconds = expiresIn ?? expiresAt.map({ $0.timeIntervalSince(serverNow) }), seconds.isFinite,
            seconds > 0
        else { return nil }
        return seconds > 15 * 60 + 60 ? nil : min(.seconds(seconds), maximumLifetime)
    }
}
