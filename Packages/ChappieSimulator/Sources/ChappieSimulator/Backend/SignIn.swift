@_spi(ChappieInternals) import ChappieCore
import FoundationEssentials

/// The code that the user copies from one screen to another, such as `BCDF-GHJKL`.
///
/// Consonants only, so that no code is a word and none holds a character that looks like another (RFC 8628, 6.1).
struct UserCode: Sendable, Hashable {
    private static let alphabet = Array("BCDFGHJKLMNPQRSTVWXZ")
    private static let length = 9

    /// Upper-case letters and digits only; what codes are compared by.
    let normalized: String

    /// A new code.
    init() { normalized = String((0..<Self.length).compactMap { _ in Self.alphabet.randomElement() }) }

    /// As the user typed it: case, spaces and every kind of dash don't matter.
    ///
    /// - Returns: `nil` when nothing is left, or when there is more than any code has.
    init?(typed: String) {
        var letters = ""
        for scalar in typed.unicodeScalars.prefix(256) {
            guard scalar.isASCII, scalar.properties.isAlphabetic || ("0"..."9").contains(scalar) else { continue }
            letters.unicodeScalars.append(scalar)
        }
        guard !letters.isEmpty, letters.count <= 64 else { return nil }
        normalized = letters.uppercased()
    }

    /// As it is shown: a dash after the fourth letter.
    var display: String { normalized.prefix(4) + "-" + normalized.dropFirst(4) }
}

/// One sign-in by device code, until its authorization code is exchanged.
struct DeviceAuthorization: Sendable {
    enum State: Sendable {
        /// Waits for the user. Next: `approved` or `refused`.
        case pending(polls: Int)
        /// The user agreed; the code may be fetched and exchanged. Next: `exchanged`.
        case approved(authorizationCode: String)
        /// The user refused. Final.
        case refused
        /// The authorization code was used. Final.
        case exchanged(authorizationCode: String)
    }

    let id: String
    let userCode: UserCode
    let clientID: String
    /// The server makes both halves of the PKCE pair (RFC 7636, 4) and hands them out.
    let verifier: String
    /// Unix seconds.
    let expiresAt: Int
    /// The account that the approval named; `nil` when it named none.
    var accountID: String?
    var state: State
}

/// Every sign-in by device code that is under way.
struct DeviceAuthorizations: Sendable {
    /// How long a code is good for, in seconds (the user is told 15 minutes).
    static let lifetime = 15 * 60
    /// Sign-ins remembered at once; the oldest makes room.
    static let limit = 1000

    enum PollResult: Sendable, Hashable {
        case pending
        case approved(authorizationCode: String, verifier: String)
        case refused
        /// Expired, exchanged already, or unknown.
        case gone
    }

    /// Why an authorization code is refused, as a sentence.
    enum RedemptionFailure: String, Error, Sendable, Hashable {
        case unknownCode = "The authorization code is not known."
        case usedCode = "The authorization code was used already."
        case expiredCode = "The authorization code has expired."
        case wrongVerifier = "code_verifier does not match."
        case wrongClient = "The authorization code belongs to another client."
    }

    /// Approve without the user on this poll (1 is the first); `nil` waits for the user.
    let approvesOnPoll: Int?
    private var entries: [DeviceAuthorization] = []

    init(approvesOnPoll: Int? = nil) { self.approvesOnPoll = approvesOnPoll }

    mutating func begin(clientID: String, now: Int) -> DeviceAuthorization {
        entries.removeAll { $0.expiresAt <= now }
        if entries.count >= Self.limit { entries.removeFirst() }
        let entry = DeviceAuthorization(
            id: randomSecret("deviceauth_"), userCode: UserCode(), clientID: clientID, verifier: randomSecret(),
            expiresAt: now + Self.lifetime,
            state: .pending(polls: 0))
        entries.append(entry)
        return entry
    }

    mutating func poll(id: String, userCode: String, now: Int) -> PollResult {
        guard let code = UserCode(typed: userCode),
            let index = entries.firstIndex(where: { $0.id == id && $0.userCode == code && $0.expiresAt > now })
        else { return .gone }
        if case .pending(let polls) = entries[index].state {
            if let approvesOnPoll, polls + 1 >= approvesOnPoll {
                entries[index].state = .approved(authorizationCode: randomSecret("ac_"))
            } else {
                entries[index].state = .pending(polls: polls + 1)
            }
        }
        switch entries[index].state {
        case .pending: return .pending
        // Given again as often as it is asked for until it is exchanged: an answer may have been lost on the way.
        case .approved(let code): return .approved(authorizationCode: code, verifier: entries[index].verifier)
        case .refused: return .refused
        case .exchanged: return .gone
        }
    }

    /// Whether the user may decide about this code now.
    func isPending(_ code: UserCode, now: Int) -> Bool { pendingIndex(code, now: now) != nil }

    /// - Parameter accountID: the account that signs in; `nil` leaves it open.
    /// - Returns: `false` when no sign-in waits under that code.
    mutating func approve(_ code: UserCode, as accountID: String? = nil, now: Int) -> Bool {
        guard let index = pendingIndex(code, now: now) else { return false }
        entries[index].accountID = accountID
        entries[index].state = .approved(authorizationCode: randomSecret("ac_"))
        return true
    }

    /// - Returns: `false` when no sign-in waits under that code.
    mutating func refuse(_ code: UserCode, now: Int) -> Bool {
        guard let index = pendingIndex(code, now: now) else { return false }
        entries[index].state = .refused
        return true
    }

    /// Uses an authorization code, once (RFC 6749, 4.1.2); gives the account that the approval named.
    mutating func redeem(
        code: String, verifier: String, clientID: String, now: Int
    ) throws(RedemptionFailure) -> String? {
        for index in entries.indices {
            switch entries[index].state {
            case .exchanged(code): throw .usedCode
            case .approved(code):
                guard entries[index].expiresAt > now else { throw .expiredCode }
                guard entries[index].clientID == clientID else { throw .wrongClient }
                guard entries[index].verifier == verifier else { throw .wrongVerifier }
                entries[index].state = .exchanged(authorizationCode: code)
                return entries[index].accountID
            default: continue
            }
        }
        throw .unknownCode
    }

    private func pendingIndex(_ code: UserCode, now: Int) -> Int? {
        entries.firstIndex {
            guard case .pending = $0.state else { return false }
            return $0.userCode == code && $0.expiresAt > now
        }
    }
}

extension Backend {
    /// Starts a sign-in by device code.
    mutating func userCode(_ request: BackendRequest, now: Int, device: ScenarioEffect.Device?) -> BackendResponse {
        guard let clientID = request.json?["client_id"]?.string, !clientID.isEmpty else {
            return .error(400, code: "invalid_request", message: "The member client_id is missing.")
        }
        let started = authorizations.begin(clientID: clientID, now: now)
        var answer = ChappieJSONObject([
            ("device_auth_id", .string(started.id)),
            (device?.userCodeKey ?? "user_code", .string(started.userCode.display)),
        ])
        switch device?.interval {
        case .string, nil: answer["interval"] = .string(String(configuration.pollInterval))
        case .number: answer["interval"] = .integer(configuration.pollInterval)
        case .null: answer["interval"] = .null
        case .absent: break
        }
        let expiry = Date(timeIntervalSince1970: Double(started.expiresAt))
        answer["expires_at"] = .string(expiry.formatted(.iso8601))
        return .json(.object(answer), headers: [noStore])
    }

    /// Answers a poll.
    ///
    /// The real service's answer after a refusal is not known. Here it is 400 with the code `access_denied` of
    /// RFC 8628, 3.5: clients take every status but 403 and 404 as the end.
    mutating func deviceToken(_ request: BackendRequest, now: Int, device: ScenarioEffect.Device?) -> BackendResponse {
        guard let body = request.json, let id = body["device_auth_id"]?.string, let code = body["user_code"]?.string
        else {
            return .error(400, code: "invalid_request", message: "device_auth_id and user_code are needed.")
        }
        switch authorizations.poll(id: id, userCode: code, now: now) {
        case .pending:
            return .error(
                device?.pendingStatus ?? 403, code: "deviceauth_authorization_pending",
                message: "Device authorization is pending. Please try again.", headers: [noStore])
        case .refused:
            return .error(400, code: "access_denied", message: "The sign-in was refused.", headers: [noStore])
        case .gone:
            return .error(
                400, code: "expired_token", message: "The code has expired or was used already. Please start again.",
                headers: [noStore])
        case .approved(let authorizationCode, let verifier):
            let answer: ChappieJSON = [
                "status": "success", "authorization_code": .string(authorizationCode),
                "code_challenge": .string(Base64URL.encode(SHA256.digest(Array(verifier.utf8)))),
                "code_verifier": .string(verifier),
            ]
            return .json(answer, headers: [noStore])
        }
    }

    var noStore: (String, String) { ("cache-control", "no-store") }
}
