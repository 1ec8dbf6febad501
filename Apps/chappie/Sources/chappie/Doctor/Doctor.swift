import ArgumentParser
@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) import ChappieClient
@_spi(ChappieInternals) import ChappieCore
import ChappieCurl
@_spi(ChappieInternals) import ChappieFiles
import ChappieProgramTools
import ChappieSDK
import FoundationEssentials
import HTTPTypes

struct Doctor: ProgramCommand {
    /// Whether the command may unlock the keyring. It only reads, so it does not.
    var mayUnlockKeyring: Bool { false }
    var accessTokenUse: AccessTokenUse { .signsInItself }
    static let configuration = CommandConfiguration(
        commandName: "doctor",
        abstract: "Check everything between this program and an answer.",
        discussion: """
            Checks the credential store, the way to the services (proxy, name, connection, TLS), the clock, the \
            sign-in, the account, its limits and its models, WebSocket, search and pictures, and how old this \
            program's knowledge of the services is. Nothing is searched, and no picture is made. Every line that is \
            not ok says what to do. Nothing secret is printed. Exits with 69 if a check failed.

            With --json: {"ok":true, "checks":[{"name":…, "status":"ok|warn|fail|skip", "detail":…, \
            "remedy":…},…]}.
            """)

    @OptionGroup var options: GlobalOptions

    func run(in program: Program) async throws {
        var checks: [ChappieJSON] = []
        var failed = 0
        var warnings = 0
        try await DoctorChecks(program: program) { name, finding in
            if !options.json { program.console.line(finding.line(name)) }
            checks.append(finding.json(name))
            if finding.status == .failed { failed += 1 }
            if finding.status == .warning { warnings += 1 }
        }.run()
        let warning = "\nNothing failed. See what is marked with warn: \(warnings) of \(checks.count) checks."
        program.say(
            ["ok": .bool(failed == 0), "checks": .array(checks)],
            failed > 0
                ? "\n\(failed) of \(checks.count) checks failed." : warnings > 0 ? warning : "\nAll is well.")
        if failed > 0 { throw ExitCode(ExitStatus.unavailable.rawValue) }
    }
}

/// The checks in their order. Each is reported when it is done.
private struct DoctorChecks {
    let program: Program
    let show: (_ name: String, Finding) -> Void

    /// Runs all checks.
    ///
    /// - Throws: `CancellationError`.
    func run() async throws {
        let endpoints = program.settings.configuration.endpoints
        let lockless = program.settings.store == .keyring ? nil : "the credential is not in a keyring"
        try await check("session lock", unless: lockless) { .sessionLock(try await program.sessionLock.state()) }
        if let problem = folderProblem { show("folders", Finding(.warning, problem.reason, problem.remedy)) }
        let isSignedIn = try await checkStore()
        checkSettings()
        try await checkManifests()
        let noIssuer = try await checkConnection(to: endpoints.issuer, called: "sign-in service")
        let noBackend = try await checkConnection(to: endpoints.backend, called: "service")
        let noServer = noIssuer != nil && noBackend != nil ? "no server to compare with" : nil
        try await check("clock", unless: noServer) {
            guard let head = try? await head(HTTPExchangeRequest(url: endpoints.issuer)) else {
                return Finding(.skipped, "no server to compare with")
            }
            return .clock(at: Date(), serverDate: head.headerFields[.date])
        }
        if let url = endpoints.discoveryURL {
            try await check("sign-in", unless: noIssuer) {
                .discovery(status: try await head(HTTPExchangeRequest(url: url)).status.code)
            }
            try await check("registration", unless: nil) {
                .registration(try await program.registrations.registration(for: program.credentials.slot))
            }
        }
        let noDeviceCode = !endpoints.usesPlan ? noIssuer : "this sign-in has no device code"
        try await check("device sign-in", unless: noDeviceCode) {
            let body: ChappieJSON = ["client_id": .string(endpoints.registration.clientID)]
            let request = HTTPExchangeRequest(
                method: .post, url: endpoints.deviceUserCodeURL,
                headerFields: [.contentType: "application/json", .accept: "application/json"],
                body: .init(bytes: body.serializedBytes()))
            let head = try await head(request)
            return .deviceSignIn(
                status: head.status.code, contentType: head.headerFields[.contentType] ?? "")
        }
        try await check("HTTP", unless: noBackend) {
            let head = try await head(HTTPExchangeRequest(url: endpoints.modelsURL))
            return .http(status: head.status.code, contentType: head.headerFields[.contentType] ?? "")
        }
        let noAccount = noBackend ?? (isSignedIn ? nil : "you are not signed in")
        var usage: ChappieUsageLimitSnapshot?
        if isSignedIn, let planUse = try? await program.credentials.accountInfo()?.planUse {
            show("plan", .planUse(planUse, endpoints))
        }
        let noUsage = endpoints.usageURL == nil ? "the service does not report it" : noAccount
        try await check("account", unless: noUsage) {
            usage = try await program.client().usageLimits()
            return Finding(.ok, "the service knows this account\(usage?.plan.map { ": \($0.displayName)" } ?? "")")
        }
        show("limits", usage.map(Finding.limits) ?? Finding(.skipped, noUsage ?? "not known"))
        try await check("models", unless: noAccount) {
            let models = try await program.client().models()
            return endpoints.usesPlan ? .models(models, for: "your ChatGPT plan") : .models(models)
        }
        let noWebSocket = !endpoints.usesWebSocket ? "this service has no WebSocket" : noAccount
        try await check("WebSocket", unless: noWebSocket) { .webSocket(refusal: await webSocketRefusal()) }
        for (name, url) in [("search", endpoints.searchURL), ("pictures", endpoints.imageGenerationsURL)] {
            let noTool = url == nil ? "this sign-in doesn't include it" : noAccount
            try await check(name, unless: noTool) {
                let head = try await refusedHead(url ?? endpoints.backend)
                return .serviceTool(status: head.status.code, contentType: head.headerFields[.contentType])
            }
        }
        show("knowledge", .knowledge(at: Date()))
    }

    /// The reason why nothing can be kept.
    private var folderProblem: FolderProblem? {
        let folders = program.environment.folders
        guard !program.options.simulate else { return nil }
        return folders.problem
            ?? [folders.state, folders.configuration].compactMap(\.self)
            .compactMap(PathOwner.refusal(of:)).first
    }

    /// Reports one check with the reason for leaving it out, its result, or its error.
    private func check(
        _ name: String, unless reason: String?, _ finding: () async throws -> Finding
    ) async throws {
        if let reason { return show(name, Finding(.skipped, reason)) }
        let result: Finding
        do {
            result = try await finding()
        } catch {
            result = Finding(error)
        }
        try Task.checkCancellation()
        show(name, result)
    }

    /// Checks whether the store can be read, and what it contains. One reading answers both questions.
    ///
    /// - Returns: whether an account is signed in.
    private func checkStore() async throws -> Bool {
        let (check, name) =
            switch program.settings.store {
            case .keyring: ("keyring", "the keyring")
            case .file: ("store", "the encrypted file")
            case .memory: ("store", "this command's memory")
            }
        let isReadable = Finding(.ok, "\(name) can be read")
        do {
            try await program.useAccessToken()
            let info = try await program.credentials.accountInfo()
            // A keyring service without a keyring is empty and does not accept anything.
            if info == nil, program.settings.store == .keyring {
                try await program.store.prepareToSave(in: program.settings.configuration.credentialSlot)
            }
            show(check, isReadable)
            show(
                "credential",
                info.map { Finding(.ok, "\($0.name) \(program.place)") }
                    ?? Finding(
                        .warning, "you are not signed in (\(program.place))", "Run \(program.settings.route.login)."))
            return info != nil
        } catch {
            try Task.checkCancellation()
            switch error {
            case ChappieAuthError.credentialStoreUnavailable(.corrupt),
                ChappieAuthError.credentialStoreUnavailable(.tooNew), ChappieAuthError.reauthenticationRequired,
                _ where program.settings.accessToken != nil:
                show(check, isReadable)
                show("credential", Finding(error))
            default:
                show(check, Finding(error))
                show("credential", Finding(.skipped, "\(name) can't be used"))
            }
            return false
        }
    }

    /// Reports errors in the settings of the network. A file or a proxy that cannot be used is noticed only when a
    /// connection is tried.
    private func checkSettings() {
        if let problem = program.settings.networkProblem { show("settings", Finding(problem)) }
        for note in (try? program.network.certificateNotes) ?? [] {
            show("authorities", Finding(.warning, note, "Remove what can't be read from there."))
        }
    }

    /// Checks the manifests of the settings. A variable that is missing in one is an error of that manifest.
    private func checkManifests() async throws {
        for path in program.settings.tools {
            try await check("tools", unless: nil) {
                let manifest = try ChappieToolManifest(WholeFile.read(path), file: path) { program.environment[$0] }
                let variables = manifest.variables.map(UntrustedText.forTerminal).joined(separator: ", ")
                let uses = variables.isEmpty ? "" : "; it uses \(variables)"
                return Finding(
                    .ok, "\(path) has \(manifest.tools.count) tools and \(manifest.servers.count) servers\(uses)")
            }
        }
    }

    /// Checks the connection to a server.
    ///
    /// - Returns: the reason why nothing there can be checked, or `nil`.
    private func checkConnection(to url: URL, called name: String) async throws -> String? {
        guard !program.options.simulate else {
            show("\(name): connection", Finding(.skipped, "the simulator is in this process"))
            return nil
        }
        let report = await program.network.probe(url)
        try Task.checkCancellation()
        for (stage, finding) in report.findings(for: url, at: Date()) { show("\(name): \(stage)", finding) }
        return report.error == nil ? nil : "the \(name) can't be reached"
    }

    /// Returns the head of an answer without sign-in.
    private func head(_ request: HTTPExchangeRequest) async throws -> HTTPExchangeResponse {
        let response = try await program.transport.send(request)
        response.body.cancel()
        return response
    }

    /// Returns the head of the answer to a request with the sign-in that can't be carried out. It is empty, so the
    /// service searches nothing and makes no picture.
    private func refusedHead(_ url: URL) async throws -> HTTPExchangeResponse {
        let authorized = MiddlewareTransport(program.transport, middleware: [program.credentials.authorization])
        let response = try await authorized.send(
            HTTPExchangeRequest(
                method: .post, url: url,
                headerFields: [.contentType: "application/json", .accept: "application/json"],
                body: .init(bytes: Array("{}".utf8))))
        response.body.cancel()
        return response
    }

    /// Returns the reason why no WebSocket opens, or `nil` if one opens.
    private func webSocketRefusal() async -> String? {
        do {
            let opening = try await program.client().webSocketOpening()
            return try await program.credentials.authorization.authorized { fields in
                switch try await program.webSocket.open(opening.url, headerFields: opening.headerFields + fields) {
                case .opened(let connection, _):
                    await connection.close(.normal)
                    return .value(nil)
                case .refused(let response) where response.status.code == 401: return .unauthorized(response)
                case .refused(let response):
                    response.body.cancel()
                    let type = response.headerFields[.contentType]
                    if BlockingPage.isOfNetwork(status: response.status.code, contentType: type, body: []) {
                        return .value("a network on the way answers instead of the service")
                    }
                    return .value("the server refuses the upgrade with status \(response.status.code)")
                }
            }
        } catch {
            return CommandLineError(error).message
        }
    }
}
