import ChappieAuth
import ChappieCrypto
import ChappieCurl
import ChappieDesktopLinux
import ChappieHTTP
import ChappieKeychainLinux
import ChappieSDK
import ChappieSimulator
import ChappieWebSocket
import FoundationEssentials
import Glibc

/// The composition root: the one place that names adapters.
struct Program: Sendable {
    let options: GlobalOptions
    let environment: ProgramEnvironment
    let settings: Settings
    let network: CurlNetwork
    let transport: any HTTPTransport
    let webSocket: any WebSocketTransport
    let store: any CredentialStore
    let credentials: CredentialManager
    let browser: any Browser
    let clipboard: any Clipboard
    let notifier: any Notifier
    /// Runs in this process when `--simulate` asks for it.
    let simulator: Simulator?

    /// - Parameters:
    ///   - asksForStore: whether this command may ask the person where credentials are to lie.
    ///   - mayPrompt: whether the keyring service may ask the person to unlock it.
    init(
        options: GlobalOptions, environment: ProgramEnvironment, asksForStore: Bool = false, mayPrompt: Bool = true
    ) async throws {
        self.options = options
        self.environment = environment
        var settings = try Settings(options: options, environment: environment)
        if asksForStore {
            settings = try await StoreChoice.settle(settings, environment: environment, isJSON: options.json)
        }
        simulator =
            options.simulate
            ? try await Simulator.start(SimulatorConfiguration(autoApprove: true, pollInterval: 0)) : nil
        if let simulator {
            settings.configuration.endpoints = ChappieEndpoints(issuer: simulator.issuer, backend: simulator.backend)
        }
        self.settings = settings
        network = CurlNetwork(policy: settings.configuration.network)
        let curl = CurlHTTPTransport(network: network)
        // A wrong setting is the person's to mend, and better known before anything is asked or sent.
        for url in settings.givenURLs { try curl.check(url) }
        let plainWebSocket = CurlWebSocketTransport(network: network)
        webSocket = options.verbose ? LoggingWebSocketTransport(plainWebSocket) : plainWebSocket
        transport = options.verbose ? MiddlewareTransport(curl, middleware: [LoggingMiddleware()]) : curl
        store =
            switch settings.store {
            case .keyring: SecretServiceCredentialStore(unlocking: Self.unlocking(mayPrompt, environment))
            case .file:
                try EncryptedFileCredentialStore(
                    passphrase: FirstPassphrase([PassphraseFile(), SystemdPassphrase(), TerminalPassphrase()]))
            case .memory: EphemeralCredentialStore()
            }
        credentials = Self.credentials(settings, settings.configuration.credentialSlot, store, transport)
        browser = XDGOpenBrowser()
        clipboard = LinuxClipboard()
        notifier = DBusNotifier()
    }

    /// Somebody has to be there, and a screen to ask on.
    private static func unlocking(
        _ mayPrompt: Bool, _ environment: ProgramEnvironment
    ) -> SecretServiceCredentialStore.Unlocking {
        let hasScreen = environment["DISPLAY"] != nil || environment["WAYLAND_DISPLAY"] != nil
        return mayPrompt && hasScreen && Terminal.errorIsTerminal ? .promptAllowed(deadline: .seconds(60)) : .never
    }

    private static func credentials(
        _ settings: Settings, _ slot: CredentialSlot, _ store: any CredentialStore, _ transport: any HTTPTransport
    ) -> CredentialManager {
        CredentialManager(
            slot: slot, store: store, transport: transport, endpoints: settings.configuration.endpoints,
            lock: settings.store == .memory ? NoCredentialLock() : FileCredentialLock())
    }

    /// The credential of another account of this program.
    func credentials(for account: String) -> CredentialManager {
        var configuration = settings.configuration
        configuration.keychainAccount = account
        return Self.credentials(settings, configuration.credentialSlot, store, transport)
    }

    private var fileStorePath: String? {
        try? (store as? EncryptedFileCredentialStore)?.path(of: settings.configuration.credentialSlot)
    }

    var storeName: String {
        switch settings.store {
        case .file: "the encrypted file"
        case .keyring: "the keyring"
        case .memory: "this command's memory"
        }
    }

    /// Where the credential lies, for people.
    var place: String {
        let slot = settings.configuration.credentialSlot
        return switch settings.store {
        case .file: "in the encrypted file \(fileStorePath ?? slot.account)"
        case .keyring: "in the keyring, as \(slot.account) of \(slot.service)"
        case .memory: "in memory, until this command ends"
        }
    }

    /// `nil` in a simulation, which leaves no trace.
    var lastAnswer: LastAnswer? {
        settings.isSimulated
            ? nil : LastAnswer(environment: environment, account: settings.configuration.keychainAccount)
    }

    func keep(_ summary: TransportSummary) {
        lastAnswer?.keep(summary, backend: settings.configuration.endpoints.profile.backend.absoluteString)
    }

    func client(_ answer: AnswerOptions? = nil) -> ChappieClient {
        var configuration = settings.configuration
        if let model = answer?.model { configuration.model = model }
        if let answer { configuration.streamingTransportPolicy = answer.transport.policy }
        return ChappieClient(
            configuration: configuration, transport: transport, webSocket: webSocket, credentials: credentials)
    }

    /// A session that has read the store, for as long as a person may take to enter a passphrase.
    ///
    /// - Throws: `CancellationError`.
    @MainActor
    func session() async throws -> ChappieAuthSession {
        try await ChappieAuthSession(loading: credentials, notifier: notifier)
    }

    /// Makes sure that there is a place for a credential, and asks the person now what saving it would have to ask.
    func prepareToSave() async throws(CredentialStoreError) {
        let slot = settings.configuration.credentialSlot
        switch store {
        case let store as SecretServiceCredentialStore: try await store.prepareToSave(in: slot)
        case let store as EncryptedFileCredentialStore: try await store.prepareToSave(in: slot)
        default: break
        }
    }

    /// Signs in to the simulator, so that every command has something to work with.
    private func signInToSimulator() async throws {
        let session = try await session()
        try await session.startDeviceCodeSignIn()
        for await state in await session.deviceLinkStateUpdates {
            switch state {
            case .linked: return
            case .failed(let error): throw error
            case .expired, .cancelled: throw ChappieAuthError.cancelledSignIn
            default: continue
            }
        }
    }
}

// MARK: Running

extension Program {
    /// Runs `command` and ends the process with the right status.
    static func run(_ command: any ProgramCommand) async -> Never {
        let work = Task { try await compose(command) }
        let interruption = Interruption { work.cancel() }
        let result = await work.result
        switch result {
        case .success: exit(ExitStatus.success.rawValue)
        case .failure(let error): exit(report(error, for: command, interruption))
        }
    }

    private static func compose(_ command: any ProgramCommand) async throws {
        if command.options.verbose { LoggingMiddleware.bootstrap() }
        let program = try await Program(
            options: command.options, environment: .process, asksForStore: command is Login,
            mayPrompt: !(command is Doctor))
        do {
            if program.simulator != nil, !(command is Login) { try await program.signInToSimulator() }
            try await command.run(in: program)
        } catch {
            await program.settle()
            throw error
        }
        await program.settle()
    }

    /// Lets a token refresh finish, in a task of its own: this one may have been cancelled by Ctrl-C, and a refresh that
    /// is broken off loses the sign-in.
    private func settle() async {
        let note = Task {
            try await Task.sleep(for: .seconds(2))
            Output.note("Waiting until the renewed sign-in is stored. Ctrl-C twice ends at once, and may lose it.")
        }
        await Task { await credentials.settle() }.value
        note.cancel()
    }

    private static func report(
        _ error: any Error, for command: any ProgramCommand, _ interruption: Interruption
    ) -> Int32 {
        if let status = interruption.exitStatus {
            Output.note("")
            return status
        }
        if let silent = error as? SilentExit { return silent.status.rawValue }
        let report = ErrorReport(error)
        if command.options.json { Output.json(report.json) }
        Output.note("chappie: \(report.message)")
        if let suggestion = report.suggestion { Output.note("         \(suggestion)") }
        return report.status.rawValue
    }
}
