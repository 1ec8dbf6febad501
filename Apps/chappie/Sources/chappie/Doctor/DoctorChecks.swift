@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import ChappieSDK
import FoundationEssentials
import HTTPTypes

/// The checks of `chappie doctor`, each told as soon as it is done: what to ask, and in which order.
struct DoctorChecks {
    let program: Program
    let tell: (Finding) -> Void

    private var profile: ChappieEndpointProfile { program.settings.configuration.endpoints.profile }

    /// - Throws: `CancellationError`.
    func run() async throws {
        try await checkSessionLock()
        let isSignedIn = try await checkStore()
        let reachesIssuer = try await checkConnection(to: profile.issuer, called: "sign-in service")
        let reachesBackend = try await checkConnection(to: profile.backend, called: "service")
        try await checkClock(reachesIssuer || reachesBackend)
        try await checkDeviceSignIn(reachesIssuer)
        try await checkHTTP(reachesBackend)
        try await checkAccount(isSignedIn, reachesBackend)
        try await checkWebSocket(isSignedIn, reachesBackend)
    }

    // MARK: The credential

    private func checkSessionLock() async throws {
        guard program.settings.store == .keyring else {
            return tell(.skipped("session lock", "the credential is not in a keyring"))
        }
        do throws(CredentialStoreError) {
            tell(Judgement.sessionLock(try await program.sessionLock.state()))
        } catch {
            try Task.checkCancellation()
            tell(.failed("session lock", error))
        }
    }

    /// One look answers two questions: whether the store can be read, and what is in it.
    private func checkStore() async throws -> Bool {
        let (check, name) =
            switch program.settings.store {
            case .keyring: ("keyring", "the keyring")
            case .file: ("store", "the encrypted file")
            case .memory: ("store", "this command's memory")
            }
        do {
            let info = try await program.credentials.accountInfo()
            // A keyring service without a keyring is empty, and takes nothing.
            if info == nil, program.settings.store == .keyring {
                try await program.store.prepareToSave(in: program.settings.configuration.credentialSlot)
            }
            tell(.ok(check, "\(name) can be read"))
            guard let info else {
                tell(.warning("credential", "nobody is signed in (\(program.place))", "Run `chappie login`."))
                return false
            }
            tell(.ok("credential", "\(info.email ?? info.accountID ?? "an account without a name") \(program.place)"))
            return true
        } catch {
            try Task.checkCancellation()
            switch error {
            case AuthorizationError.store(.corrupt), AuthorizationError.reauthenticationRequired:
                tell(.ok(check, "\(name) can be read"))
                tell(.failed("credential", error))
            default:
                tell(.failed(check, error))
                tell(.skipped("credential", "\(name) can't be used"))
            }
            return false
        }
    }

    // MARK: The network

    private func checkConnection(to url: URL, called name: String) async throws -> Bool {
        let diagnosis = await program.diagnose(url)
        try Task.checkCancellation()
        for finding in diagnosis.findings(at: Date()) { tell(finding.within(name)) }
        return diagnosis.isReachable
    }

    private func checkClock(_ isReachable: Bool) async throws {
        guard isReachable, let response = try await exchange(HTTPExchangeRequest(url: profile.issuer)) else {
            return tell(.skipped("clock", "no server to compare with"))
        }
        tell(Judgement.clock(at: Date(), serverDate: response.headerFields[.date]))
    }

    private func checkDeviceSignIn(_ isReachable: Bool) async throws {
        let name = "device sign-in"
        guard isReachable else { return tell(.skipped(name, "the sign-in service can't be reached")) }
        let body: ChappieJSON = ["client_id": .string(program.settings.configuration.endpoints.registration.clientID)]
        let request = HTTPExchangeRequest(
            method: .post, url: profile.deviceUserCodeURL,
            headerFields: [.contentType: "application/json", .accept: "application/json"],
            body: .init(bytes: body.serializedBytes()))
        guard let response = try await exchange(request, as: name) else { return }
        tell(Judgement.deviceSignIn(status: response.status.code))
    }

    private func checkHTTP(_ isReachable: Bool) async throws {
        let name = "HTTP"
        guard isReachable else { return tell(.skipped(name, "the service can't be reached")) }
        guard let response = try await exchange(HTTPExchangeRequest(url: profile.modelsURL), as: name) else { return }
        tell(Judgement.http(status: response.status.code, contentType: response.headerFields[.contentType] ?? ""))
    }

    /// An exchange without sign-in, of which only the head matters; `nil` when there is none, which has then been told under
    /// `name`.
    private func exchange(_ request: HTTPExchangeRequest, as name: String? = nil) async throws -> HTTPExchangeResponse?
    {
        do {
            let response = try await program.transport.send(request)
            response.body.cancel()
            return response
        } catch {
            try Task.checkCancellation()
            if let name { tell(.failed(name, error)) }
            return nil
        }
    }

    // MARK: The account

    private func checkAccount(_ isSignedIn: Bool, _ isReachable: Bool) async throws {
        guard isSignedIn, isReachable else {
            let reason = isReachable ? "nobody is signed in" : "the service can't be reached"
            tell(.skipped("account", reason))
            return tell(.skipped("limits", reason))
        }
        do {
            let usage = try await program.client().usageLimits()
            tell(.ok("account", usage.plan.map { "the service knows it: \($0.displayName)" } ?? "the service knows it"))
            tell(Judgement.limits(usage))
        } catch {
            try Task.checkCancellation()
            tell(.failed("account", error))
            tell(.skipped("limits", "not known"))
        }
    }

    private func checkWebSocket(_ isSignedIn: Bool, _ isReachable: Bool) async throws {
        let name = "WebSocket"
        guard let web = profile.webSocket else { return tell(.skipped(name, "this service has none")) }
        guard isReachable else { return tell(.skipped(name, "the service can't be reached")) }
        guard isSignedIn else { return tell(.skipped(name, "nobody is signed in")) }
        do {
            let refusal = try await program.credentials.authorization.authorized { fields in
                switch try await program.webSocket.open(profile.responsesURL, headerFields: web.headerFields + fields) {
                case .opened(let connection, _):
                    await connection.close(.normal)
                    return AuthorizedAttempt<Int?>.value(nil)
                case .refused(let response):
                    response.body.cancel()
                    guard response.status.code == 401 else { return .value(response.status.code) }
                    return .unauthorized(headerFields: response.headerFields, body: [])
                }
            }
            tell(Judgement.webSocket(refusal: refusal.map { "the upgrade is refused with status \($0)" }))
        } catch {
            try Task.checkCancellation()
            tell(Judgement.webSocket(refusal: ErrorReport(error).message))
        }
    }
}

/// What `chappie doctor` makes of an answer: no network, no clock.
enum Judgement {
    static func sessionLock(_ state: SessionLockState) -> Finding {
        let name = "session lock"
        return switch state {
        case .unlocked: .ok(name, "the login session is unlocked")
        case .noSession(let reason): .skipped(name, "nothing that could be locked: \(reason)")
        case .locked: .failed(name, "the login session is locked, and the credential with it", "Unlock the screen.")
        }
    }

    static func clock(at now: Date, serverDate: String?) -> Finding {
        guard let serverDate, let server = HTTPDate.imfFixdate(serverDate) else {
            return .skipped("clock", "the server does not say what time it is")
        }
        let skew = now.timeIntervalSince(server)
        guard abs(skew) >= 120 else { return .ok("clock", "within two minutes of the server's") }
        let minutes = Int((abs(skew) / 60).rounded())
        return .failed(
            "clock", "this machine's clock is \(minutes) minutes \(skew > 0 ? "ahead of" : "behind") the server's",
            "Set it (`timedatectl set-ntp true`): tokens and certificates are judged by it.")
    }

    static func deviceSignIn(status: Int) -> Finding {
        let name = "device sign-in"
        return switch status {
        case 200..<300: .ok(name, "is offered (a code was asked for and left unused)")
        case 404:
            .failed(
                name, "is switched off for this account or workspace",
                "Turn on \"Device code authorization for Codex\" in ChatGPT's settings, under Security, or ask the "
                    + "workspace's administrator.")
        default: .failed(name, "the sign-in service answers with status \(status)", "Try again in a few minutes.")
        }
    }

    /// Without a token the service refuses, and that is an answer.
    static func http(status: Int, contentType: String) -> Finding {
        switch status {
        case 200..<300 where contentType.hasPrefix("text/html"):
            .failed(
                "HTTP", "a web page answers in the place of the service",
                "This network wants you to sign in to it first: open any page in a browser.")
        case 500...: .failed("HTTP", "the service has a problem (status \(status))", "Try again later.")
        default: .ok("HTTP", "the service answers (status \(status))")
        }
    }

    static func limits(_ usage: ChappieUsageLimitSnapshot) -> Finding {
        let windows = [usage.primary, usage.secondary].compactMap { $0 }
        guard let fullest = windows.max(by: { $0.usedPercent < $1.usedPercent }) else {
            return .ok("limits", "the service names none")
        }
        let reset = fullest.resetsAt.map { ", resets at \($0.localMinute)" } ?? ""
        let detail = "\(fullest.wholePercent) % of the fullest window is used\(reset)"
        return switch fullest.usedPercent {
        case ..<80: .ok("limits", detail)
        case ..<100: .warning("limits", detail, "See `chappie usage`.")
        default: .failed("limits", detail, "Wait for the reset, or see `chappie usage`.")
        }
    }

    /// A warning at most: answers have another way.
    static func webSocket(refusal: String?) -> Finding {
        guard let refusal else { return .ok("WebSocket", "opens") }
        return .warning(
            "WebSocket", refusal,
            "Answers come over server-sent events instead; ask the operator of the proxy to let upgrades through.")
    }
}
