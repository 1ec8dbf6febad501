@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import ChappieCrypto
import ChappieCurl
import ChappieDesktopLinux
@_spi(ChappieInternals) import ChappieFiles
import ChappieHTTP
import ChappieKeychainLinux
import ChappieLoopback
import ChappieMCP
import ChappieRuntime
import ChappieSDK
import ChappieSimulator
@_spi(ChappieInternals) import ChappieThreadsSQLite
import ChappieWebSocket
import FoundationEssentials
import Synchronization

/// The composition root, which is the only place that names adapters.
struct Program: Sendable {
    let options: GlobalOptions
    let environment: ProgramEnvironment
    let console: Console
    let settings: ResolvedSettings
    let network: CurlNetwork
    let transport: any HTTPTransport
    /// The transport for tool servers, which the user names in addition to the service. A simulation also uses it.
    let externalTransport: any HTTPTransport
    /// The transport for addresses to read. It returns redirects.
    let attachmentTransport: any HTTPTransport
    let webSocket: any WebSocketTransport
    let store: any SharedCredentialStore
    let credentials: CredentialManager
    /// The client ids that the sign-in service has issued. They are kept when the user signs out.
    let registrations: any RegistrationStore
    /// The user's sign-ins at tool servers.
    let toolSignIns: ToolSignIns
    /// The apps that the user has connected in ChatGPT. None of them is offered until the user names it.
    let connectedApps: ChappieConnectedApps
    /// The servers and programs that the command has started. They end with it.
    let startedTools = StartedTools()
    /// The runtimes that keep conversations. The command ends when they have kept everything.
    let runtimes = StartedRuntimes()

    // Most commands do not need these values, so they are made only when they are used.
    var browser: any Browser { XDGOpenBrowser() }
    var canOpenBrowser: Bool { XDGOpenBrowser().canOpen }
    var clipboard: LinuxClipboard { LinuxClipboard() }
    var sessionLock: any SessionLock { LogindSessionLock() }
    var callbackListener: any CallbackListener { LoopbackCallbackListener() }
    var signInCryptography: any SignInCryptography { SystemSignInCryptography() }

    /// - Parameters:
    ///   - accessTokenUse: how the command treats the access token of the environment.
    ///   - use: how much of the settings the command uses.
    ///   - mayUnlockKeyring: whether the program may ask the user to unlock the keyring.
    ///   - isSignIn: whether the command signs in. Without a keyring, the user may then choose another store.
    init(
        _ options: GlobalOptions, _ environment: ProgramEnvironment, _ console: Console,
        accessTokenUse: AccessTokenUse = .ignored, use: SettingsUse = .credential, mayUnlockKeyring: Bool = false,
        isSignIn: Bool = false
    ) async throws {
        self.options = options
        self.environment = environment
        self.console = console
        var settings = try ResolvedSettings(
            options: options, environment: environment, accessTokenUse: accessTokenUse, use: use)
        for notice in settings.notices { console.note("chappie: \(notice)") }
        let simulator =
            options.simulate
            ? try InMemorySimulator(SimulatorConfiguration(autoApprove: true, pollInterval: 0)) : nil
        if let simulator {
            settings.configuration.endpoints = ChappieEndpoints(issuer: simulator.issuer, backend: simulator.backend)
        }
        // Unlocking a keyring requires a user and a screen for the question.
        let hasScreen = environment["DISPLAY"] != nil || environment["WAYLAND_DISPLAY"] != nil
        let unlocks = mayUnlockKeyring && hasScreen && console.terminals.error
        let keyring = SecretServiceCredentialStore(
            files: environment.lock, unlocking: unlocks ? .promptAllowed(deadline: .seconds(60)) : .never)
        if isSignIn, !settings.isStoreChosen, !options.json, console.terminals.input, console.terminals.output,
            try await Self.choosesFile(insteadOf: keyring, settings.configuration.credentialSlot, environment, console)
        {
            settings.store = .file
        }
        let passphraseFile = settings.passphraseFile
        let keepsKeys = settings[.keepKey]?.bool != false
        func opened(_ kind: StoreChoice) throws -> any SharedCredentialStore {
            switch kind {
            case .keyring: return keyring
            case .file:
                let file: [any PassphraseSource] = passphraseFile.map { [PassphraseFile(path: $0)] } ?? []
                do throws(CredentialStoreError) {
                    return try EncryptedFileCredentialStore(
                        passphrase: FirstPassphrase(file + [SystemdPassphrase(), TerminalPassphrase()]),
                        keepsKeys: keepsKeys)
                } catch {
                    return LocalCredentialStore(NoCredentialStore(reason: error), lock: NoCredentialLock())
                }
            case .memory: return LocalCredentialStore(ChappieEphemeralCredentialStore(), lock: NoCredentialLock())
            }
        }
        store = try opened(settings.store)
        network = CurlNetwork(policy: settings.configuration.network, extraCAFileName: ResolvedSettings.caFileVariable)
        let curl = CurlHTTPTransport(network: network)
        if use != .credential, !options.simulate {
            // The user can fix a wrong setting, and it is reported before anything is asked or sent.
            if let problem = settings.networkProblem { throw problem }
            for url in settings.givenURLs { try curl.check(url) }
            for note in try network.certificateNotes { console.note("chappie: \(note)") }
        }
        let http: any HTTPTransport = simulator?.transport ?? curl
        let sockets: any WebSocketTransport = simulator?.webSocket ?? CurlWebSocketTransport(network: network)
        let log = RequestLog(console: console)
        transport = options.verbose ? MiddlewareTransport(http, middleware: [log]) : http
        externalTransport = options.verbose ? MiddlewareTransport(curl, middleware: [log]) : curl
        let plainCurl = CurlHTTPTransport(network: network, followsRedirects: false)
        attachmentTransport = options.verbose ? MiddlewareTransport(plainCurl, middleware: [log]) : plainCurl
        webSocket = options.verbose ? LoggedWebSocketTransport(transport: sockets, log: log) : sockets
        registrations = FileRegistrationStore.userDefault { environment[$0] }
        credentials = CredentialManager(
            slot: settings.configuration.credentialSlot, store: store, transport: transport,
            endpoints: settings.configuration.endpoints,
            browserSignIn: BrowserSignInPorts(
                listener: LoopbackCallbackListener(), registrations: registrations,
                cryptography: SystemSignInCryptography()))
        connectedApps = ChappieConnectedApps(
            credentials: credentials, transport: transport, apps: [],
            automaticTools: Set((settings[.appTools]?.array ?? []).compactMap(\.string)))
        let login = settings.route.login
        credentials.onRenewalRefused { reason, end in
            let rest = end.map { "You can continue until \($0.localTime); then run" } ?? "Run"
            console.note("chappie: \(reason) \(rest) \(login).")
        }
        // An access token replaces only the user's own sign-in.
        let kept = settings.accessToken == nil ? store : try opened(settings.keptStore)
        toolSignIns = ToolSignIns(
            account: settings.configuration.keychainAccount, store: kept, transport: externalTransport,
            usualManifests: settings.tools, namedAccount: options.account)
        self.settings = settings
    }

    /// Asks once, on a machine without a keyring, whether to store credentials in an encrypted file. Remembers a yes.
    private static func choosesFile(
        insteadOf keyring: some CredentialStore, _ slot: CredentialSlot, _ environment: ProgramEnvironment,
        _ console: Console
    ) async throws -> Bool {
        do throws(CredentialStoreError) {
            try await keyring.prepareToSave(in: slot)
            return false
        } catch {
            guard case .absent(let reason) = error else { return false }
            console.line("No keyring was found here: \(reason).")
        }
        console.line("The credential can be stored in an encrypted file instead, under a passphrase of yours.")
        guard try await TerminalLineReader(console: console).confirms("Use an encrypted file?") == true else {
            return false
        }
        try await ProgramNotes.change(environment) { $0.store = .file }
        console.line("Remembered. (CHAPPIE_CREDENTIAL_STORE overrides it.)\n")
        return true
    }

    /// The place of the credential as text for the middle of a sentence.
    var place: String {
        let slot = settings.configuration.credentialSlot
        switch settings.store {
        case .file:
            let path = try? (store as? EncryptedFileCredentialStore)?.path(of: slot)
            return "in the encrypted file \(path ?? slot.account)"
        case .keyring: return "in the keyring, as \(slot.account) of \(slot.service)"
        case .memory where settings.accessToken != nil:
            return "not stored (taken from \(ProgramEnvironment.accessTokenVariable))"
        case .memory: return "in memory, until this command ends"
        }
    }

    /// Keeps the client's turns in `store`.
    func runtime(_ client: ChappieClient, _ store: any ChappieThreadStore) -> ChappieRuntime {
        let runtime = client.runtime(store: store)
        runtimes.add(runtime)
        return runtime
    }

    /// Returns the store of the kept conversations, or `nil` in a simulation and with a credential store in memory,
    /// which cannot keep the key. Each account has a separate store.
    func threads() throws -> ChappieFileThreadStore? {
        guard settings.store != .memory else { return nil }
        // A missing home directory is a usage error.
        _ = try environment.folder(\.state, for: "threads")
        let slot = settings.configuration.credentialSlot
        return ChappieFileThreadStore(
            owner: CredentialSlot(service: "com.chappie.cli", account: slot.account, issuer: slot.issuer),
            // The program asks only once for the passphrase of an encrypted file.
            storagePolicy: .init(
                fileProtection: settings.store == .file ? .completeUntilFirstUserAuthentication : .complete),
            limits: .init(maximumBytes: settings.threadLimit), keys: store)
    }

    /// Returns the thread store for a command that also works without one. Prints a notice if there is none.
    func threadsIfPossible() -> ChappieFileThreadStore? {
        do {
            return try threads()
        } catch {
            note(AnswerKeeping.notice(error))
            return nil
        }
    }

    /// Shows a notice and prints it for scripts.
    func note(_ notice: ChappieNotice) {
        console.note("chappie: \(notice.message)")
        if options.json { console.json(ChappieStreamEvent.notice(notice).json) }
    }

    /// The record of the last answer. `nil` in a simulation, which does not leave any data.
    var lastAnswer: LastAnswer? {
        options.simulate ? nil : LastAnswer(environment: environment, configuration: settings.configuration)
    }

    /// Prints a result, as JSON for scripts and otherwise in lines.
    func say(_ json: ChappieJSON, _ lines: String...) {
        if options.json { console.json(json) } else { lines.forEach(console.line) }
    }

    /// Returns the tools for the answers. They are the same for all clients of a command, so no server is started
    /// twice.
    ///
    /// - Throws: ``CommandLineError`` for a manifest of tools that cannot be used.
    func tools(of answer: AnswerOptions) throws -> CommandLineTools {
        try startedTools.tools {
            try CommandLineTools(
                manifests: answer.tools, logs: answer.toolLog, environment, console, externalTransport, toolSignIns)
        }
    }

    /// Returns a client for one conversation.
    ///
    /// - Parameters:
    ///   - answer: how to answer and with which tools. Default: as in the settings, without tools.
    ///   - approval: asks the user before a tool runs.
    /// - Throws: ``CommandLineError`` for a manifest of tools that cannot be used.
    func client(
        _ answer: AnswerOptions? = nil, approval: ToolApproval? = nil
    ) throws -> ChappieClient {
        var configuration = settings.configuration
        if let model = answer?.model { configuration.model = model }
        // A tool that the model has invented, or that may not run, does not end the turn.
        configuration.toolFailureBehavior = .tellModel
        if let rounds = answer?.rounds { configuration.toolLoopLimit = rounds }
        configuration.replayDivergence = .restart
        if let answer { configuration.streamingTransportPolicy = (answer.transport ?? .auto).policy }
        let tools = try answer.map(tools)
        let apps = answer?.appNames ?? []
        guard apps.isEmpty || !configuration.endpoints.usesPlan else {
            throw ChappieClientError.notWithThisSignIn("Using connected apps")
        }
        connectedApps.offer(apps)
        return ChappieClient(
            configuration: configuration, transport: transport, webSocket: webSocket, credentials: credentials,
            tools: (tools?.tools ?? []).map(startedTools.awaiting),
            toolProviders: (tools?.providers ?? []) + [NotedApps(apps: connectedApps, console: console)],
            toolApprovalHandler: approval.map { approval in approval.decide },
            modelCache: options.simulate ? nil : ChappieFileModelCache { environment[$0] },
            webSocketNotes: options.simulate
                ? nil : ChappieFileWebSocketNotes(proxy: configuration.network.proxy) { environment[$0] })
    }

    /// Signs in with the access token of the environment if this command uses it.
    func useAccessToken() async throws {
        if let token = settings.accessToken { try await session().signIn(accessToken: token) }
    }

    /// Returns a session that has read the store. It waits as long as the user needs to enter a passphrase.
    ///
    /// - Throws: `CancellationError`.
    @MainActor
    func session() async throws -> ChappieAuthSession {
        try await ChappieAuthSession(loading: credentials, notifier: DBusNotifier())
    }

    /// Adds this account, which has signed in, to the list of `chappie accounts`, and uses its route from now on. The
    /// sign-in is already stored and is valid without its name in the list, so a failure is reported in a line. Ctrl-C
    /// does not stop it.
    func rememberAccount() async {
        do {
            try await uncancelled {
                let email = try? await credentials.accountInfo()?.email
                try await ProgramNotes.change(environment) {
                    $0.add(settings.configuration.keychainAccount, email: email, of: settings.issuer)
                    $0.use(settings.route)
                }
            }
        } catch {
            let problem = CommandLineError(error)
            console.note(
                "chappie: `chappie accounts` does not list this account: \(problem.message) \(problem.suggestion ?? "")"
            )
        }
    }
}

/// A replacement for a store that cannot be made, for example without a home directory.
private struct NoCredentialStore: CredentialStore {
    let reason: CredentialStoreError

    func load(_ slot: CredentialSlot) throws(CredentialStoreError) -> Secret? { throw reason }
    func prepareToSave(in slot: CredentialSlot) throws(CredentialStoreError) { throw reason }
    func save(_ secret: Secret, in slot: CredentialSlot) throws(CredentialStoreError) { throw reason }
    func delete(_ slot: CredentialSlot) throws(CredentialStoreError) { throw reason }
}

/// The runtimes that a command started.
final class StartedRuntimes: Sendable {
    private let all = Mutex<[ChappieRuntime]>([])

    func add(_ runtime: ChappieRuntime) { all.withLock { $0.append(runtime) } }

    /// Waits until the runtimes have kept the messages and answers so far, even after Ctrl-C.
    func settle() async {
        for runtime in all.withLock({ $0 }) { await runtime.settle() }
    }
}
