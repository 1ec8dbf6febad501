import CGtk4
import ChappieAuth
import ChappieCore

/// Opens pages with GTK: in a sandbox through the desktop's portal, otherwise directly in the user's browser.
@MainActor
final class GTKBrowser: Browser {
    /// A widget of the window that asks for the page; `nil` when that window has gone.
    var asking: Widget?

    private var window: UnsafeMutablePointer<GtkWindow>? {
        asking.flatMap { gtk_widget_get_root($0) }.map { UnsafeMutablePointer($0) }
    }

    @MainActor func open(_ url: URL) async throws(DesktopError) {
        // Other schemes start programs.
        guard let scheme = url.scheme?.lowercased(), scheme == "http" || scheme == "https", url.host() != nil else {
            throw DesktopError("Only http and https pages are opened in a browser.")
        }
        let window = window
        let reason = await withCheckedContinuation { continuation in
            gtk_show_uri_full(
                window, url.absoluteString, guint32(GDK_CURRENT_TIME), nil,
                { window, result, answer in
                    guard let answer else { return }
                    var error: UnsafeMutablePointer<GError>?
                    let window = window.map { UnsafeMutableRawPointer($0).assumingMemoryBound(to: GtkWindow.self) }
                    _ = gtk_show_uri_full_finish(window, result, &error)
                    let reason = error.map { String(cString: $0.pointee.message) }
                    g_clear_error(&error)
                    Unmanaged<Answer>.fromOpaque(answer).takeRetainedValue().continuation.resume(returning: reason)
                }, Unmanaged.passRetained(Answer(continuation)).toOpaque())
        }
        if let reason { throw DesktopError("No browser could be opened (\(reason)). Open the page by hand.") }
    }

    private final class Answer {
        let continuation: CheckedContinuation<String?, Never>

        init(_ continuation: CheckedContinuation<String?, Never>) { self.continuation = continuation }
    }
}

/// The clipboard of a widget's display.
@MainActor
final class GTKClipboard: Clipboard {
    private let display: OpaquePointer

    init(of widget: Widget) { display = gtk_widget_get_display(widget) }

    /// The program keeps the text, and gives it to each program that pastes.
    @MainActor func copy(_ text: String) async throws(DesktopError) -> ClipboardOutcome {
        gdk_clipboard_set_text(gdk_display_get_clipboard(display), text)
        return .copied
    }
}
