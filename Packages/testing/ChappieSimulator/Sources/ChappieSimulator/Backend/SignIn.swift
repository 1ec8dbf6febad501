@_spi(ChappieInternals) import ChappieCore

/// The code that the user copies from one screen to another, such as `BCDF-GHJKL`.
struct UserCode: Sendable, Hashable {
    /// Only consonants, so that no code is a word or contains a character that looks like another one (RFC 8628, 6.1).
    private static let alphabet = Array("BCDFGHJKLMNPQRSTVWXZ")

    /// The upper-case letters and digits, by which codes are compared.
    let normalized: String

    /// Creates a new code of nine letters.
    init() { normalized = String((0..<9).compactMap { _ in Self.alphabet.randomElement() }) }

    /// Creates a code from the user's input, without regard to case, spaces and every kind of dash, or returns `nil` if
    /// nothing is left.
    init?(typed: String) {
        normalized = typed.filter { $0.isASCII && ($0.isLetter || $0.isNumber) }.uppercased()
        if normalized.isEmpty { return nil }
    }

    /// The code in the form that the user reads, with a dash after the fourth letter.
    var display: String { normalized.prefix(4) + "-" + normalized.dropFirst(4) }
}

/// One sign-in by device code, until its authorization code is exchanged.
struct DeviceAuthorization: Sendable {
    enum State: Sendable {
        /// The sign-in waits for the user. Next: `approved` or `refused`.
        case pending
        /// The user agreed, for this account if one was named. The code may be fetched and exchanged. Next:
        /// `exchanged`.
        case approved(authorizationCode: String, accountID: String?)
        /// The user refused. Final.
        case refused
        /// The authorization code was used. Final.
        case exchanged(authorizationCode: String)
    }

    let id = randomSecret("deviceauth_")
    let userCode = UserCode()
    let clientID: String
    /// The time of expiry in Unix seconds.
    let expiresAt: Int
    var state = State.pending
}

/// The sign-ins by device code that are in progress.
struct DeviceAuthorizations: Sendable {
    /// The lifetime of a code in seconds (the user reads 15 minutes).
    static let lifetime = 15 * 60
    /// The verifier of the PKCE pair. The server makes both halves and returns them. They are the example of RFC 7636,
    /// appendix B.
    static let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
    static let challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"

    /// The reason for which an authorization code is refused, as a sentence.
    enum RedemptionFailure: String, Error {
        case unknownCode = "The authorization code is not known."
        case usedCode = "The authorization code was used already."
        case expiredCode = "The authorization code has expired."
        case wrongVerifier = "code_verifier does not match."
        case wrongClient = "The authorization code belongs to another client."
    }

    /// Whether a sign-in is approved without the user, on its first poll.
    let autoApprove: Bool
    private var entries: [DeviceAuthorization] = []

    init(autoApprove: Bool = false) { self.autoApprove = autoApprove }

    mutating func begin(clientID: String, now: Int) -> DeviceAuthorization {
        entries.removeAll { $0.expiresAt <= now }
        let entry = DeviceAuthorization(clientID: clientID, expiresAt: now + Self.lifetime)
        entries.append(entry)
        return entry
    }

    /// Returns the state that a poll finds, or `nil` for a sign-in that has expired or is unknown.
    mutating func poll(id: String, userCode: String, now: Int) -> DeviceAuthorization.State? {
        let code = UserCode(typed: userCode)
        guard let index = entries.firstIndex(where: { $0.id == id && $0.userCode == code && $0.expiresAt > now })
        else { return nil }
        if autoApprove, case .pending = entries[index].state {
            entries[index].state = .approved(authorizationCode: randomSecret("ac_"), accountID: nil)
        }
        return entries[index].state
    }

    /// Approves or refuses a sign-in, as the user does.
    ///
    /// - Parameter accountID: the account that signs in, or `nil` to leave it open.
    /// - Returns: `false` if no sign-in waits for that code.
    mutating func decide(_ typed: String, approves: Bool, as accountID: String? = nil, now: Int) -> Bool {
        let code = UserCode(typed: typed)
        let index = entries.firstIndex {
            if case .pending = $0.state { $0.userCode == code && $0.expiresAt > now } else { false }
        }
        guard let index else { return false }
        let approved = DeviceAuthorization.State.approved(authorizationCode: randomSecret("ac_"), accountID: accountID)
        entries[index].state = approves ? approved : .refused
        return true
    }

    /// Redeems an authorization code, which is possible only once (RFC 6749, 4.1.2), and returns the account that the
    /// approval named.
    mutating func redeem(
        code: String, verifier: String, clientID: String, now: Int
    ) throws(RedemptionFailure) -> String? {
        for index in entries.indices {
            switch entries[index].state {
            case .exchanged(code): throw .usedCode
            case .approved(code, let accountID):
                guard entries[index].expiresAt > now else { throw .expiredCode }
                guard entries[index].clientID == clientID else { throw .wrongClient }
                guard verifier == Self.verifier else { throw .wrongVerifier }
                entries[index].state = .exchanged(authorizationCode: code)
                return accountID
            default: continue
            }
        }
        throw .unknownCode
    }
}

extension Backend {
    /// Starts a sign-in by device code.
    mutating func userCode(_ request: BackendRequest, now: Int, device: ScenarioEffect.Device?) -> BackendResponse {
        guard let clientID = request.fields?["client_id"] else {
            return .error(400, code: "invalid_request", message: "The member client_id is missing.")
        }
        let started = authorizations.begin(clientID: clientID, now: now)
        let expiry = Date(timeIntervalSince1970: Double(started.expiresAt))
        var answer: ChappieJSONObject = [
            "device_auth_id": .string(started.id),
            device?.userCodeKey ?? "user_code": .string(started.userCode.display),
            "interval": .string(String(configuration.pollInterval)), "expires_at": .string(expiry.formatted(.iso8601)),
        ]
        switch device?.interval {
        case .string, nil: break
        case .number: answer["interval"] = .integer(configuration.pollInterval)
        case .null: answer["interval"] = .null
        case .absent: answer["interval"] = nil
        }
        return .json(.object(answer), headers: [noStore])
    }

    /// Answers a poll.
    ///
    /// The real service's answer after a refusal is not known. Here, it is 400 with the code `access_denied` of RFC
    /// 8628, 3.5. Clients take every status except 403 and 404 as the end.
    mutating func deviceToken(_ request: BackendRequest, now: Int, device: ScenarioEffect.Device?) -> BackendResponse {
        guard let fields = request.fields, let id = fields["device_auth_id"], let code = fields["user_code"] else {
            return .error(400, code: "invalid_request", message: "device_auth_id and user_code are needed.")
        }
        switch authorizations.poll(id: id, userCode: code, now: now) {
        case .pending:
            return .error(
                device?.pendingStatus.map(Int.init) ?? 403, code: "deviceauth_authorization_pending",
                message: "Device authorization is pending. Please try again.", headers: [noStore])
        case .refused:
            return .error(400, code: "access_denied", message: "The sign-in was refused.", headers: [noStore])
        case .exchanged, nil:
            return .error(
                400, code: "expired_token", message: "The code has expired or was used already. Please start again.",
                headers: [noStore])
        // The code is returned on every poll until it is exchanged, because an earlier answer may have been lost.
        case .approved(let authorizationCode, _):
            let answer: ChappieJSON = [
                "status": "success", "authorization_code": .string(authorizationCode),
                "code_challenge": .string(DeviceAuthorizations.challenge),
                "code_verifier": .string(DeviceAuthorizations.verifier),
            ]
            return .json(answer, headers: [noStore])
        }
    }

    var noStore: (String, String) { ("cache-control", "no-store") }
}
