@_spi(ChappieInternals) import ChappieAuth
import ChappieCurl
import ChappieKeychainLinux
import ChappieSDK
import FoundationEssentials
import HTTPTypes

/// The checks of `chappie doctor`, each told as soon as it is done.
struct Examination {
    let program: Program
    let tell: (Finding) -> Void

    private var profile: ChappieEndpointProfile { program.settings.configuration.endpoints.profile }

    /// - Throws: `CancellationError`.
    func run() async throws {
        try await checkSessionLock()
        let isSignedIn = try await checkStore()
        let reachesIssuer = try await checkWay(to: profile.issuer, called: "sign-in service")
        let reachesBackend = try await checkWay(to: profile.backend, called: "service")
        try await checkClock(reachesIssuer || reachesBackend)
        try await checkDeviceSignIn(reachesIssuer)
        try await checkHTTP(reachesBackend)
        try await checkAccount(isSignedIn, reachesBackend)
        try await checkWebSocket(isSignedIn, reachesBackend)
    }

    // MARK: The credential

    private func checkSessionLock() async throws {
        let name = "session lock"
        guard program.settings.store == .keyring else {
            return tell(.skipped(name, "the credential is not in a keyring"))
        }
        do throws(CredentialStoreError) {
            switch try await LogindSessionLock().state() {
            case .unlocked: tell(.ok(name, "the login session is unlocked"))
            case .noSession(let reason): tell(.skipped(name, "nothing that could be locked: \(reason)"))
            case .locked:
                tell(.failed(name, "the login session is locked, and the credential with it", "Unlock the screen."))
            }
        } catch {
            try Task.checkCancellation()
            tell(.failed(name, error))
        }
    }

    /// Two questions that one look answers: whether the store can be read, and what is in it.
    private func checkStore() async throws -> Bool {
        let store = program.settings.store == .keyring ? "keyring" : "store"
        do {
            let info = try await program.credentials.accountInfo()
            // A keyring service without a keyring is empty, and takes nothing.
            if info == nil, program.settings.store == .keyring { try await program.prepareToSave() }
            tell(.ok(store, "\(program.storeName) can be read"))
            guard let info else {
                tell(.warning("credential", "nobody is signed in (\(program.place))", "Run `chappie login`."))
                return false
            }
            tell(.ok("credential", "\(info.email ?? info.accountID ?? "somebody") \(program.place)"))
            return true
        } catch {
            try Task.checkCancellation()
            switch error {
            case AuthorizationError.store(.corrupt), AuthorizationError.reauthenticationRequired:
                tell(.ok(store, "\(program.storeName) can be read"))
                tell(.failed("credential", error))
            default:
                tell(.failed(store, error))
                tell(.skipped("credential", "\(program.storeName) can't be used"))
            }
            return false
        }
    }

    // MARK: The way

    private func checkWay(to url: URL, called name: String) async throws -> Bool {
        let report = await program.network.probe(url)
        try Task.checkCancellation()
        for finding in Way(to: url, as: report).findings {
            tell(Finding("\(name): \(finding.name)", like: finding))
        }
        return report.error == nil
    }

    // MARK: The clock

    private func checkClock(_ isReachable: Bool) async throws {
        let name = "clock"
        guard isReachable else { return tell(.skipped(name, "no server to compare with")) }
        guard let response = try await exchange(HTTPExchangeRequest(url: profile.issuer)) else {
            return tell(.skipped(name, "no server to compare with"))
        }
        response.body.cancel()
        guard let date = response.headerFields[.date], let theirs = Self.moment(date)
        else {
            return tell(.skipped(name, "the server does not say what time it is"))
        }
        let skew = Date().timeIntervalSince(theirs)
        guard abs(skew) >= 120 else { return tell(.ok(name, "within two minutes of the server's")) }
        let minutes = Int((abs(skew) / 60).rounded())
        tell(
            .failed(
                name, "this machine's clock is \(minutes) minutes \(skew > 0 ? "ahead of" : "behind") the server's",
                "Set it (`timedatectl set-ntp true`): tokens and certificates are judged by it."))
    }

    // MARK: The services

    private func checkDeviceSignIn(_ isReachable: Bool) async throws {
        let name = "device sign-in"
        guard isReachable else { return tell(.skipped(name, "the sign-in service can't be reached")) }
        let body: ChappieJSON = ["client_id": .string(program.settings.configuration.endpoints.registration.clientID)]
        let request = HTTPExchangeRequest(
            method: .post, url: profile.deviceUserCodeURL,
            headerFields: [.contentType: "application/json", .accept: "application/json"],
            body: .init(bytes: body.serializedBytes()))
        guard let response = try await exchange(request, as: name) else { return }
        response.body.cancel()
        switch response.status.code {
        case 200..<300: tell(.ok(name, "is offered (a code was asked for and left unused)"))
        case 404:
            tell(
                .failed(
                    name, "is switched off for this account or workspace",
                    "Turn on \"Device code authorization for Codex\" in ChatGPT's settings, under Security, or ask the "
                        + "workspace's administrator."))
        case let status:
            tell(.failed(name, "the sign-in service answers with status \(status)", "Try again in some minutes."))
        }
    }

    private func checkHTTP(_ isReachable: Bool) async throws {
        let name = "HTTP"
        guard isReachable else { return tell(.skipped(name, "the service can't be reached")) }
        guard let response = try await exchange(HTTPExchangeRequest(url: profile.modelsURL), as: name) else { return }
        response.body.cancel()
        let type = response.headerFields[.contentType] ?? ""
        if response.status.kind == .successful, type.hasPrefix("text/html") {
            return tell(
                .failed(
                    name, "a web page answers in the place of the service",
                    "This network wants you to sign in to it first: open any page in a browser."))
        }
        if response.status.code >= 500 {
            return tell(.failed(name, "the service has a problem (status \(response.status.code))", "Try again later."))
        }
        // Without a token the service refuses, and that is an answer.
        tell(.ok(name, "the service answers (status \(response.status.code))"))
    }

    private func checkAccount(_ isSignedIn: Bool, _ isReachable: Bool) async throws {
        guard isSignedIn, isReachable else {
            let reason = isReachable ? "nobody is signed in" : "the service can't be reached"
            tell(.skipped("account", reason))
            return tell(.skipped("limits", reason))
        }
        do {
            let usage = try await program.client().usageLimits()
            tell(.ok("account", usage.plan.map { "the service knows it: \($0.displayName)" } ?? "the service knows it"))
            tell(limits(usage))
        } catch {
            try Task.checkCancellation()
            tell(.failed("account", error))
            tell(.skipped("limits", "not known"))
        }
    }

    private func limits(_ usage: ChappieUsageLimitSnapshot) -> Finding {
        let windows = [usage.primary, usage.secondary].compactMap { $0 }
        guard let fullest = windows.max(by: { $0.usedPercent < $1.usedPercent }) else {
            return .ok("limits", "the service names none")
        }
        let reset = fullest.resetsAt.map { ", resets at \($0.localMinute)" } ?? ""
        let detail = "\(fullest.wholePercent) % of the fullest window is used\(reset)"
        switch fullest.usedPercent {
        case ..<80: return .ok("limits", detail)
        case ..<100: return .warning("limits", detail, "See `chappie usage`.")
        default: return .failed("limits", detail, "Wait for the reset, or see `chappie usage`.")
        }
    }

    private func checkWebSocket(_ isSignedIn: Bool, _ isReachable: Bool) async throws {
        let name = "WebSocket"
        guard let web = profile.webSocket else { return tell(.skipped(name, "this service has none")) }
        guard isReachable else { return tell(.skipped(name, "the service can't be reached")) }
        guard isSignedIn else { return tell(.skipped(name, "nobody is signed in")) }
        let remedy = "Answers come over server-sent events instead; ask whoever runs the proxy to let upgrades through."
        do {
            let webSocket = program.webSocket
            let request = HTTPExchangeRequest(url: profile.responsesURL, headerFields: web.headerFields)
            let response = try await program.credentials.authorization.intercept(request) { request in
                switch try await webSocket.open(request.url, headerFields: request.headerFields) {
                case .refused(let response): return response
                case .opened(let connection, let fields):
                    await connection.close(.normal)
                    return HTTPExchangeResponse(status: .switchingProtocols, headerFields: fields)
                }
            }
            response.body.cancel()
            guard response.status != .switchingProtocols else { return tell(.ok(name, "opens")) }
            tell(.warning(name, "the upgrade is refused with status \(response.status.code)", remedy))
        } catch {
            try Task.checkCancellation()
            tell(.warning(name, Finding.failed("", error).detail, remedy))
        }
    }

    // MARK: Support

    /// An exchange without sign-in; `nil` when there is none, which has then been told under `name`.
    private func exchange(_ request: HTTPExchangeRequest, as name: String? = nil) async throws -> HTTPExchangeResponse?
    {
        do {
            return try await program.transport.send(request)
        } catch {
            try Task.checkCancellation()
            if let name { tell(.failed(name, error)) }
            return nil
        }
    }
}
