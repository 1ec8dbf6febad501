import ChappieSDK
import ChappieSDKRuntime
import ChappieThreadsPostgres

/// The sign-ins and the clients of all users.
actor Users {
    private let endpoints: ChappieEndpoints
    private let signIns: ChappieCredentialStorage
    /// The sign-ins that wait for their users on this machine, or have failed on it.
    private var links: [String: EventLog] = [:]

    init(endpoints: ChappieEndpoints, signIns: ChappieCredentialStorage) {
        self.endpoints = endpoints
        self.signIns = signIns
    }

    private nonisolated func configuration(of user: String) -> ChappieConfiguration {
        ChappieConfiguration(keychainService: "chappie-server", keychainAccount: user, endpoints: endpoints)
    }

    /// Creates the pool of the users' clients.
    nonisolated func pool(
        _ database: ChappiePostgresDatabase, _ tables: ServerTables, idle: Duration
    ) -> ChappieClientPool {
        let dice = ChappieHostTool(name: "roll_dice", description: "Rolls two dice.", policy: .ask) { call in
            if let turn = Turn.current { try await tables.roll(call.callID, in: turn.id.value) }
            return "\(Int.random(in: 1...6)) and \(Int.random(in: 1...6))"
        }
        return ChappieClientPool(limits: .init(idle: idle)) { user in
            // A turn that waits for the user is stored, so no machine has to wait with it.
            Chappie.client(
                configuration: self.configuration(of: user), tools: [dice], store: self.signIns,
                toolApprovalHandler: { _ in .deferred }
            ).runtime(store: try database.threads(of: user))
        }
    }

    private func session(of user: String) async -> ChappieAuthSession {
        await Chappie.loadedAuthSession(configuration: configuration(of: user), store: signIns)
    }

    // MARK: Linking

    /// Begins to link the user's account, unless that has begun or the user has linked one.
    func link(_ user: String) async {
        if let log = links[user], log.endedAt == nil { return }
        let log = EventLog()
        links[user] = log
        let session = await session(of: user)
        Task {
            do {
                let account: ChappieAccountInfo
                if let linked = await session.accountInfo {
                    account = linked
                } else {
                    account = try await session.signIn { log.add("code", $0.json) }
                }
                links[user] = nil
                log.end("linked", account.json)
            } catch {
                log.end("failed", ["reason": .string(sentence(of: error))])
            }
        }
    }

    /// Sends a page the progress of the user's sign-in. A code is known only on the machine that asked for it.
    nonisolated func sendLink(of user: String, to reader: inout EventReader) async throws {
        let log = await links[user]
        if let log, log.endedAt == nil { return try await log.send(to: &reader) }
        if let account = await session(of: user).accountInfo { return try await reader.send("linked", account.json) }
        if let log { return try await log.send(to: &reader) }
        try await reader.send("failed", ["reason": "No account is linked yet."])
    }

    /// Revokes the user's sign-in and removes it.
    func unlink(_ user: String) async throws {
        links[user] = nil
        try await session(of: user).signOutAndRevoke()
    }
}

extension ChappieDeviceCode {
    fileprivate var json: ChappieJSON {
        [
            "user_code": .string(userCode), "address": .string(verificationURL.absoluteString),
            "until": expiresAt.map { .string($0.ISO8601Format()) } ?? .null,
        ]
    }
}

extension ChappieAccountInfo {
    fileprivate var json: ChappieJSON { ["plan": .string(plan?.displayName ?? "unknown")] }
}
