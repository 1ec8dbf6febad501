import ChappieAuth
import ChappieCore
import ChappieCrypto
import ChappieCurl
import ChappieDesktopLinux
import ChappieHTTP
import ChappieKeychainLinux
import ChappieSDK
import ChappieSimulator
import ChappieWebSocket
import FoundationEssentials

/// The composition root: the one place that names adapters.
struct Program: Sendable {
    let options: GlobalOptions
    let environment: ProgramEnvironment
    let console: Console
    let settings: Settings
    let transport: any HTTPTransport
    let webSocket: any WebSocketTransport
    let store: any CredentialStore
    let credentials: CredentialManager
    /// Opens a connection to the host of a URL, and says what came of it.
    let diagnose: @Sendable (URL) async -> ConnectionDiagnosis
    /// Runs in this process when `--simulate` asks for it.
    let simulator: Simulator?

    // Most commands need none of these, so that starting doesn't make them.
    var browser: any Browser { XDGOpenBrowser() }
    var clipboard: any Clipboard { LinuxClipboard() }
    var sessionLock: any SessionLock { LogindSessionLock() }

    /// - Parameters:
    ///   - choosesStore: whether this command may ask the user where to store credentials.
    ///   - mayPrompt: whether the keyring service may ask the user to unlock it.
    init(
        options: GlobalOptions, environment: ProgramEnvironment, console: Console, choosesStore: Bool = false,
        mayPrompt: Bool = true
    ) async throws {
        (self.options, self.environment, self.console) = (options, environment, console)
        var settings = try Settings(options: options, environment: environment)
        simulator =
            options.simulate
            ? try await Simulator.start(SimulatorConfiguration(autoApprove: true, pollInterval: 0)) : nil
        if let simulator {
            settings.configuration.endpoints = ChappieEndpoints(issuer: simulator.issuer, backend: simulator.backend)
        }
        // Unlocking a keyring takes a user, and a screen to ask on.
        let hasScreen = environment["DISPLAY"] != nil || environment["WAYLAND_DISPLAY"] != nil
        let unlocks = mayPrompt && hasScreen && console.terminals.error
        var store = try Self.store(settings, unlocks)
        if choosesStore, try await Self.choosesFile(instead: store, settings, environment, options, console) {
            settings.store = .file
            store = try Self.store(settings, unlocks)
        }
        (self.settings, self.store) = (settings, store)
        let network = CurlNetwork(policy: settings.configuration.network)
        let curl = CurlHTTPTransport(network: network)
        // The user can fix a wrong setting, and learns of it before anything is asked or sent.
        for url in settings.givenURLs { try curl.check(url) }
        let curlWebSocket = CurlWebSocketTransport(network: network)
        let log = RequestLog(console: console)
        transport = options.verbose ? MiddlewareTransport(curl, middleware: [log]) : curl
        webSocket = options.verbose ? LoggedWebSocketTransport(transport: curlWebSocket, log: log) : curlWebSocket
        diagnose = { url in ConnectionDiagnosis(url, await network.probe(url)) }
        credentials = Self.credentials(
            settings, settings.configuration.credentialSlot, store, transport, environment)
    }

    private static func store(_ settings: Settings, _ unlocks: Bool) throws -> any CredentialStore {
        switch settings.store {
        case .keyring:
            return SecretServiceCredentialStore(unlocking: unlocks ? .promptAllowed(deadline: .seconds(60)) : .never)
        case .file:
            let file: [any PassphraseSource] = settings.passphraseFile.map { [PassphraseFile(path: $0)] } ?? []
            return try EncryptedFileCredentialStore(
                passphrase: FirstPassphrase(file + [SystemdPassphrase(), TerminalPassphrase()]))
        case .memory:
            return ChappieEphemeralCredentialStore()
        }
    }

    /// Asks once, on a machine without a keyring, whether to store credentials in an encrypted file, and remembers a yes.
    /// Without a terminal it asks nothing, and the keyring's own error follows.
    private static func choosesFile(
        instead store: any CredentialStore, _ settings: Settings, _ environment: ProgramEnvironment,
        _ options: GlobalOptions, _ console: Console
    ) async throws -> Bool {
        guard !settings.isStoreChosen, !options.json, console.terminals.input, console.terminals.output else {
            return false
        }
        do throws(CredentialStoreError) {
            try await store.prepareToSave(in: settings.configuration.credentialSlot)
            return false
        } catch {
            guard case .absent(let reason) = error else { return false }
            console.line("No keyring was found here: \(reason).")
        }
        console.line("The credential can be stored in an encrypted file instead, under a passphrase of yours.")
        console.write("Use an encrypted file? [y/N] ")
        var input = StandardInput()
        guard let answer = try await input.readLine(), ["y", "yes"].contains(answer.lowercased()) else { return false }
        try await UserSettings.change(environment) { $0.store = Settings.Store.file.rawValue }
        console.line("Remembered. (CHAPPIE_CREDENTIAL_STORE overrides it.)\n")
        return true
    }

    private static func credentials(
        _ settings: Settings, _ slot: CredentialSlot, _ store: any CredentialStore, _ transport: any HTTPTransport,
        _ environment: ProgramEnvironment
    ) -> CredentialManager {
        CredentialManager(
            slot: slot, store: store, transport: transport, endpoints: settings.configuration.endpoints,
            lock: settings.store == .memory ? NoCredentialLock() : environment.lock)
    }

    /// The credential of another account of this program.
    func credentials(for account: String) -> CredentialManager {
        var configuration = settings.configuration
        configuration.keychainAccount = account
        return Self.credentials(settings, configuration.credentialSlot, store, transport, environment)
    }

    /// Where the credential is stored, for people: the middle of a sentence.
    var place: String {
        let slot = settings.configuration.credentialSlot
        switch settings.store {
        case .file:
            let path = try? (store as? EncryptedFileCredentialStore)?.path(of: slot)
            return "in the encrypted file \(path ?? slot.account)"
        case .keyring: return "in the keyring, as \(slot.account) of \(slot.service)"
        case .memory: return "in memory, until this command ends"
        }
    }

    /// `nil` in a simulation, which leaves no trace.
    var lastAnswer: LastAnswer? {
        guard !settings.isSimulated else { return nil }
        let configuration = settings.configuration
        return LastAnswer(
            environment: environment, account: configuration.keychainAccount,
            backend: configuration.endpoints.profile.backend)
    }

    /// Prints a result: as JSON for scripts, else as a line.
    func say(_ json: ChappieJSON, _ line: String) { options.json ? console.json(json) : console.line(line) }

    /// A client for one conversation.
    func client(_ answer: AnswerOptions? = nil) -> ChappieClient {
        var configuration = settings.configuration
        if let model = answer?.model { configuration.model = model }
        if let answer { configuration.streamingTransportPolicy = answer.transport.policy }
        return ChappieClient(
            configuration: configuration, transport: transport, webSocket: webSocket, credentials: credentials)
    }

    /// A session that has read the store, for as long as the user needs to enter a passphrase.
    ///
    /// - Throws: `CancellationError`.
    @MainActor
    func session() async throws -> ChappieAuthSession {
        try await ChappieAuthSession(loading: credentials, notifier: DBusNotifier())
    }

    /// Signs in to the simulator, so that every command has a credential to work with.
    func signInToSimulator() async throws {
        _ = try await session().signIn { _ in }
    }
}

extension ProgramEnvironment {
    /// Lets one process of this user at a time change what is kept.
    var lock: any CredentialLock { FileCredentialLock.userDefault { self[$0] } }
}
