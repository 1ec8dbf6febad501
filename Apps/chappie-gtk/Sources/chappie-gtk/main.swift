// A chat window over ChappieSDK and ChappieSignInGTK. LaunchOptions reads the settings, and ChatWindow shows the
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

let settings = LaunchOptions(CommandLine.arguments)

/// If the program is already running, a second start shows the existing window. With other settings it is another
/// program, because a program with a simulator must not show the window of the real service.
let id = settings.digest.map { "com.chappie.Chat.With\($0)" } ?? "com.chappie.Chat"

/// This file must not contain `await`, because GTK's loop runs the main actor's jobs, as ChappieGTKMainLoop explains.
guard let application = gtk_application_new(id, G_APPLICATION_HANDLES_OPEN) else {
    LaunchOptions.refuse("GTK could not be started.")
}
let program = UnsafeMutableRawPointer(application).assumingMemoryBound(to: GApplication.self)
var chat: ChatWindow?

@MainActor
func showWindow() {
    ChappieGTKMainLoop.install()
    // A window that is ending continues to end next to the new window.
    if chat?.isEnding ?? true { chat = ChatWindow(application, settings) }
    chat?.present()
}

ChappieGTKSignal.connect(application, "activate") { showWindow() }
OpenedFiles.connect(application) { paths in
    showWindow()
    // The files are attached like files that are dropped.
    chat?.attach(paths)
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
var words = settings.arguments.map { strdup($0) } + [nil]
let status = g_application_run(program, gint(settings.arguments.count), &words)
g_object_unref(application)
exit(status)
