import CGtk4
import ChappieProgramTools
import ChappieSDK
import ChappieSDKRuntime
import FoundationEssentials

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// The settings from the environment and the arguments.
struct LaunchOptions {
    static let help = """
        USAGE: chappie-gtk [--tools FILE] [FILE …] [--help] [--version]

        A window to talk to ChatGPT with your own account. Files are attached to the next message.

        OPTIONS
          --tools FILE              a manifest of programs that the model may call; it asks first, unless the manifest
                                    says otherwise

        ENVIRONMENT
          CHAPPIE_ISSUER            where to sign in (default https://auth.openai.com)
          CHAPPIE_BACKEND           the service, up to and including /backend-api
          CHAPPIE_CREDENTIAL_STORE  keyring (default), file (encrypted) or memory
          CHAPPIE_PASSPHRASE_FILE   a file with the passphrase of the encrypted file
          CHAPPIE_TOOLS             as --tools
          CHAPPIE_ACCOUNT           the account to use (default "default")
          CHAPPIE_CA_FILE           a PEM file of additional authorities to trust
          CHAPPIE_MINIMUM_TLS       the oldest TLS to speak: 1.2 (default) or 1.3

        "chappie simulator" prints the first two for a service on this machine. Conversations are kept
        with those of the command chappie, encrypted with a key in the credential store.
        """

    let configuration: ChappieConfiguration
    let store: ChappieCredentialStorage
    /// The store for the keys of kept conversations, or `nil` if credentials are only in memory.
    let keys: ChappieCredentialStorage?
    /// The policy for kept conversations. Each use of an encrypted file's key would need the passphrase again.
    let threadPolicy: ChappieFileThreadStoreStoragePolicy
    let tools: [ChappieHostTool]
    /// The arguments for GTK, which are the program's name and the files.
    let arguments: [String]
    /// A hash of the settings, or `nil` if no variable and no manifest is set. It identifies the settings.
    let digest: UInt32?

    /// Reads the settings. Ends the process if one cannot be used, or if only the help or the version was requested.
    init(_ arguments: [String]) {
        var words = Array(arguments.dropFirst())
        var manifest = ProcessInfo.processInfo.environment["CHAPPIE_TOOLS"]
        var files: [String] = []
        while let word = words.first {
            words.removeFirst()
            switch word {
            case "--help", "-h":
                print(Self.help)
                exit(0)
            case "--version":
                print("chappie-gtk \(ChappieVersion.current)")
                exit(0)
            case "--tools":
                guard let file = words.first else { Self.refuse("--tools needs the file of a manifest.") }
                words.removeFirst()
                manifest = file
            case "--":
                files += words
                words = []
            default: files.append(word)
            }
        }
        let service = ChappieEndpoints.chatGPT
        let environment = ProcessInfo.processInfo.environment
        guard
            let minimumTLS = ChappieNetworkPolicy.TLSVersion(rawValue: environment["CHAPPIE_MINIMUM_TLS"] ?? "1.2")
        else { Self.refuse("CHAPPIE_MINIMUM_TLS must be 1.2 or 1.3.") }
        configuration = ChappieConfiguration(
            keychainAccount: environment["CHAPPIE_ACCOUNT"] ?? "default",
            harness: "You talk to a person in a small window, which draws Markdown. Answer briefly.",
            // A tool that the model has invented, or that may not run, does not end the turn.
            toolFailureBehavior: .tellModel, replayDivergence: .restart,
            automaticCompaction: 0.8,
            endpoints: ChappieEndpoints(
                issuer: Self.address("CHAPPIE_ISSUER", default: service.issuer),
                backend: Self.address("CHAPPIE_BACKEND", default: service.backend)),
            network: ChappieNetworkPolicy(extraCAFile: environment["CHAPPIE_CA_FILE"], minimumTLS: minimumTLS))
        let place = environment["CHAPPIE_CREDENTIAL_STORE"] ?? "keyring"
        store =
            switch place {
            case "keyring": .keyring(unlocking: .promptAllowed)
            case "file": .encryptedFile(passphrase: .environment)
            case "memory": .memory
            default: Self.refuse("CHAPPIE_CREDENTIAL_STORE must be keyring, file or memory.")
            }
        keys = place == "memory" ? nil : store
        threadPolicy = .init(fileProtection: place == "file" ? .completeUntilFirstUserAuthentication : .complete)
        tools = manifest.map(Self.tools) ?? []
        self.arguments = [arguments.first ?? "chappie-gtk"] + files
        var chosen = ProcessInfo.processInfo.environment.map { "\($0)=\($1)" }.filter { $0.hasPrefix("CHAPPIE_") }
        if let manifest { chosen.append("--tools \(manifest)") }
        digest = chosen.isEmpty ? nil : g_str_hash(chosen.sorted().joined(separator: "\n"))
    }

    static func refuse(_ sentence: String) -> Never {
        let line = Array("chappie-gtk: \(sentence)\n".utf8)
        _ = line.withUnsafeBytes { write(STDERR_FILENO, $0.baseAddress, $0.count) }
        exit(64)
    }

    /// Returns the web address in an environment variable, or the default.
    private static func address(_ name: String, default url: URL) -> URL {
        guard let text = ProcessInfo.processInfo.environment[name] else { return url }
        guard let url = URL(string: text), url.scheme == "https" || url.scheme == "http", url.host() != nil else {
            refuse("\(name) is not a web address.")
        }
        return url
    }

    // MARK: Tools

    /// The maximum size of a manifest, in bytes.
    private static let manifestLimit = 1 << 20

    private static func tools(_ file: String) -> [ChappieHostTool] {
        var status = stat()
        // Reading a pipe would wait for its writer.
        guard stat(file, &status) == 0, status.st_mode & S_IFMT == S_IFREG, status.st_size <= manifestLimit,
            let bytes = FileManager.default.contents(atPath: file)
        else { refuse("\(file) is no file of at most \(manifestLimit >> 20) MiB that can be read.") }
        do {
            let manifest = try ChappieToolManifest(Array(bytes), file: file)
            guard manifest.servers.isEmpty else {
                refuse("\(file): this window runs programs; tool servers are for the command chappie.")
            }
            return manifest.tools.map(\.hostTool)
        } catch {
            refuse(error.explanation)
        }
    }
}
