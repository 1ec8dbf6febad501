// A chat window over ChappieSDK and ChappieSignInGTK: this file chooses the settings, ChatWindow shows the
// conversation.
import CGtk4
import ChappieSDK
import ChappieSignInGTK
import FoundationEssentials

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

let help = """
    USAGE: chappie-gtk [--help] [--version]

    A window to talk to ChatGPT with your own account.

    ENVIRONMENT
      CHAPPIE_ISSUER            where to sign in (default https://auth.openai.com)
      CHAPPIE_BACKEND           the service, up to and including /backend-api
      CHAPPIE_CREDENTIAL_STORE  keyring (default), file (encrypted) or memory
      CHAPPIE_PASSPHRASE_FILE   a file with the passphrase of the encrypted file

    "chappie simulator" prints the first two for a service on this machine.
    """

func refuse(_ sentence: String) -> Never {
    let line = Array("chappie-gtk: \(sentence)\n".utf8)
    _ = line.withUnsafeBytes { write(STDERR_FILENO, $0.baseAddress, $0.count) }
    exit(64)
}

/// The web address in an environment variable, or the default.
func address(_ name: String, default url: URL) -> URL {
    guard let text = ProcessInfo.processInfo.environment[name] else { return url }
    guard let url = URL(string: text), url.scheme == "https" || url.scheme == "http", url.host() != nil else {
        refuse("\(name) is not a web address.")
    }
    return url
}

switch CommandLine.arguments.dropFirst().first {
case "--help", "-h":
    print(help)
    exit(0)
case "--version":
    print("chappie-gtk \(ChappieVersion.current)")
    exit(0)
default: break
}

// MARK: Settings

let service = ChappieEndpoints.chatGPT.profile
let configuration = ChappieConfiguration(
    harness: "You talk to a person in a small window. Answer in plain text, briefly.", automaticCompaction: 0.8,
    endpoints: ChappieEndpoints(
        issuer: address("CHAPPIE_ISSUER", default: service.issuer),
        backend: address("CHAPPIE_BACKEND", default: service.backend)))
let store: ChappieCredentialStorage =
    switch ProcessInfo.processInfo.environment["CHAPPIE_CREDENTIAL_STORE"] ?? "keyring" {
    case "keyring": .keyring(unlocking: .promptAllowed)
    case "file": .encryptedFile(passphrase: .environment)
    case "memory": .memory
    default: refuse("CHAPPIE_CREDENTIAL_STORE must be keyring, file or memory.")
    }

// MARK: Running

/// If the program runs already, a second start shows the present window. With other settings it is another program: a
/// program with a simulator must not show the window of the real service.
let settings = ProcessInfo.processInfo.environment.map { "\($0)=\($1)" }.filter { $0.hasPrefix("CHAPPIE_") }
let sum = g_str_hash(settings.sorted().joined(separator: "\n"))
let id = settings.isEmpty ? "com.chappie.Chat" : "com.chappie.Chat.With\(sum)"

/// There must be no `await` in this file: GTK's loop runs the main actor's jobs, as ChappieGTKMainLoop says.
guard let application = gtk_application_new(id, G_APPLICATION_DEFAULT_FLAGS) else {
    refuse("GTK could not be started.")
}
let program = UnsafeMutableRawPointer(application).assumingMemoryBound(to: GApplication.self)
var chat: ChatWindow?

ChappieGTKSignal.connect(application, "activate") {
    ChappieGTKMainLoop.install()
    // A window that is ending keeps ending beside the new window.
    if chat?.isEnding ?? true { chat = ChatWindow(application, configuration: configuration, store: store) }
    chat?.present()
}
/// After Ctrl-C, as after Ctrl+Q or when the window is closed, the process stores its data and ends. A second Ctrl-C
/// ends it at once.
for signal in [SIGINT, SIGTERM, SIGHUP] {
    let quit: GSourceFunc = { _ in
        MainActor.assumeIsolated { if let chat, !chat.isEnding { chat.quit() } else { g_application_quit(program) } }
        return 1
    }
    g_unix_signal_add(signal, quit, nil)
}
let status = g_application_run(program, CommandLine.argc, CommandLine.unsafeArgv)
g_object_unref(application)
exit(status)
