@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import ChappieSDK
import FoundationEssentials
import HTTPTypes

/// The checks of `chappie doctor`, each told as soon as it is done: what to ask, and in which order.
struct DoctorChecks {
    let program: Program
    let tell: (Finding) -> Void

    /// - Throws: `CancellationError`.
    func run() async throws {
        let endpoints = program.settings.configuration.endpoints
        let profile = endpoints.profile
        let lockless = program.settings.store == .keyring ? nil : "the credential is not in a keyring"
        try await check("session lock", unless: lockless) { .sessionLock(try await program.sessionLock.state()) }
        let isSignedIn = try await checkStore()
        let noIssuer = try await checkConnection(to: profile.issuer, called: "sign-in service")
        let noBackend = try await checkConnection(to: profile.backend, called: "service")
        let noServer = noIssuer != nil && noBackend != nil ? "no server to compare with" : nil
        try await check("clock", unless: noServer) {
            guard let head = try? await head(HTTPExchangeRequest(url: profile.issuer)) else {
                return .skipped("clock", "no server to compare with")
            }
            return .clock(at: Date(), serverDate: head.headerFields[.date])
        }
        try await check("device sign-in", unless: noIssuer) {
            let body: ChappieJSON = ["client_id": .string(endpoints.registration.clientID)]
            let request = HTTPExchangeRequest(
                method: .post, url: profile.deviceUserCodeURL,
                headerFields: [.contentType: "application/json", .accept: "application/json"],
                body: .init(bytes: body.serializedBytes()))
            return .deviceSignIn(status: try await head(request).status.code)
        }
        try await check("HTTP", unless: noBackend) {
            let head = try await head(HTTPExchangeRequest(url: profile.modelsURL))
            return .http(status: head.status.code, contentType: head.headerFields[.contentType] ?? "")
        }
        let noAccount = noBackend ?? (isSignedIn ? nil : "you are not signed in")
        var usage: ChappieUsageLimitSnapshot?
        try await check("account", unless: noAccount) {
            usage = try await program.client().usageLimits()
            return .ok("account", "the service knows it\(usage?.plan.map { ": \($0.displayName)" } ?? "")")
        }
        tell(usage.map(Finding.limits) ?? .skipped("limits", noAccount ?? "not known"))
        let noWebSocket = profile.webSocket == nil ? "this service has none" : noAccount
        try await check("WebSocket", unless: noWebSocket) { .webSocket(refusal: await webSocketRefusal(profile)) }
    }

    /// Tells of one check: why it is left out, what it found, or what went wrong.
    private func check(
        _ name: String, unless reason: String?, _ finding: () async throws -> Finding
    ) async throws {
        if let reason { return tell(.skipped(name, reason)) }
        do {
            let finding = try await finding()
            try Task.checkCancellation()
            tell(finding)
        } catch {
            try Task.checkCancellation()
            tell(.failed(name, error))
        }
    }

    /// One look answers two questions: whether the store can be read, and what is in it.
    ///
    /// - Returns: whether an account is signed in.
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
            tell(
                info.map { .ok("credential", "\($0.name) \(program.place)") }
                    ?? .warning("credential", "you are not signed in (\(program.place))", "Run `chappie login`."))
            return info != nil
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

    /// - Returns: `nil`, or why nothing there can be checked.
    private func checkConnection(to url: URL, called name: String) async throws -> String? {
        let diagnosis = await program.diagnose(url)
        try Task.checkCancellation()
        for finding in diagnosis.findings(at: Date()) { tell(finding.within(name)) }
        return diagnosis.isReachable ? nil : "the \(name) can't be reached"
    }

    /// The head of an answer without sign-in.
    private func head(_ request: HTTPExchangeRequest) async throws -> HTTPExchangeResponse {
        let response = try await program.transport.send(request)
        response.body.cancel()
        return response
    }

    /// Why no WebSocket opens; `nil` when one does.
    private func webSocketRefusal(_ profile: ChappieEndpointProfile) async -> String? {
        do {
            return try await program.credentials.authorization.authorized { fields in
                let fields = (profile.webSocket?.headerFields ?? [:]) + fields
                switch try await program.webSocket.open(profile.responsesURL, headerFields: fields) {
                case .opened(let connection, _):
                    await connection.close(.normal)
                    return .value(nil)
                case .refused(let response) where response.status.code == 401: return .unauthorized(response)
                case .refused(let response):
                    response.body.cancel()
                    return .value("the upgrade is refused with status \(response.status.code)")
                }
            }
        } catch {
            return CommandLineError(error).message
        }
    }
}

/// The judgement of `chappie doctor` on an answer: no network, no clock.
extension Finding {
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
