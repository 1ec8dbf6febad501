/// Every sign-in by device code that is under way.
struct DeviceAuthorizations: Sendable {
    /// How long a code is good for, in seconds (the person is told 15 minutes).
    static let lifetime = 15 * 60
    /// Sign-ins remembered at once; the oldest makes room.
    static let limit = 1000

    enum PollResult: Sendable, Hashable {
        case pending
        case approved(authorizationCode: String, verifier: CodeVerifier)
        case refused
        /// Expired, exchanged already, or never heard of.
        case gone
    }

    enum RedemptionFailure: Error, Sendable, Hashable {
        case unknownCode, usedCode, expiredCode, wrongVerifier, wrongClient
    }

    /// Approve without a person on this poll (1 is the first); `nil` waits for the person.
    let approvesOnPoll: Int?
    private var entries: [DeviceAuthorization] = []

    init(approvesOnPoll: Int? = nil) { self.approvesOnPoll = approvesOnPoll }

    mutating func begin(clientID: String, now: Int, identifiers: inout IdentifierSource) -> DeviceAuthorization {
        entries.removeAll { $0.expiresAt <= now }
        if entries.count >= Self.limit { entries.removeFirst() }
        let entry = DeviceAuthorization(
            id: identifiers.secret("deviceauth_"), userCode: identifiers.userCode(), clientID: clientID,
            verifier: CodeVerifier(verifier: identifiers.secret()), expiresAt: now + Self.lifetime,
            state: .pending(polls: 0))
        entries.append(entry)
        return entry
    }

    mutating func poll(
        id: String, userCode: String, now: Int, identifiers: inout IdentifierSource
    ) -> PollResult {
        guard let code = UserCode(typed: userCode),
            let index = entries.firstIndex(where: { $0.id == id && $0.userCode == code && $0.expiresAt > now })
        else { return .gone }
        if case .pending(let polls) = entries[index].state {
            if let approvesOnPoll, polls + 1 >= approvesOnPoll {
                entries[index].state = .approved(authorizationCode: identifiers.secret("ac_"))
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

    /// Whether a person may decide about this code now.
    func isPending(_ code: UserCode, now: Int) -> Bool { pendingIndex(code, now: now) != nil }

    /// - Parameter accountID: who signs in; `nil` leaves it open.
    /// - Returns: `false` when no sign-in waits under that code.
    mutating func approve(
        _ code: UserCode, as accountID: String? = nil, now: Int, identifiers: inout IdentifierSource
    ) -> Bool {
        guard let index = pendingIndex(code, now: now) else { return false }
        entries[index].accountID = accountID
        entries[index].state = .approved(authorizationCode: identifiers.secret("ac_"))
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
    ) -> Result<String?, RedemptionFailure> {
        for index in entries.indices {
            switch entries[index].state {
            case .exchanged(code): return .failure(.usedCode)
            case .approved(code):
                guard entries[index].expiresAt > now else { return .failure(.expiredCode) }
                guard entries[index].clientID == clientID else { return .failure(.wrongClient) }
                guard entries[index].verifier.verifier == verifier else { return .failure(.wrongVerifier) }
                entries[index].state = .exchanged(authorizationCode: code)
                return .success(entries[index].accountID)
            default: continue
            }
        }
        return .failure(.unknownCode)
    }

    private func pendingIndex(_ code: UserCode, now: Int) -> Int? {
        entries.firstIndex {
            guard case .pending = $0.state else { return false }
            return $0.userCode == code && $0.expiresAt > now
        }
    }
}
