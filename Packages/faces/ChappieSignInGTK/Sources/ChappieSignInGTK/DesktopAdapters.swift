public import CGtk4
public import ChappieAuth
public import ChappieCore

/// A browser that opens pages with GTK. In a sandbox it uses the desktop's portal, otherwise directly the user's
/// browser.
///
/// ```swift
/// let browser = ChappieGTKBrowser(asking: window)
/// try await browser.open(page)
/// ```
@MainActor
public final class ChappieGTKBrowser: Browser {
    /// A widget of the window that asks for the page, or `nil` when that window no longer exists.
    public var asking: UnsafeMutablePointer<GtkWidget>?
    private let opensMail: Bool

    /// Creates a browser for the window of a widget.
    ///
    /// - Parameters:
    ///   - asking: A widget of the window that asks for the page. Default `nil`, which means no window.
    ///   - opensMail: Whether a `mailto:` address opens a message in the user's mail program. Default `false`.
    public init(asking: UnsafeMutablePointer<GtkWidget>? = nil, opensMail: Bool = false) {
        self.asking = asking
        self.opensMail = opensMail
    }

    /// Returns whether ``open(_:)`` opens this address. It opens `http` and `https` pages with a host, and `mailto:`
    /// addresses if they are allowed. Other schemes start programs.
    public func opens(_ url: URL) -> Bool {
        switch url.scheme?.lowercased() {
        case "http", "https": url.host()?.isEmpty == false
        case "mailto": opensMail
        default: false
        }
    }

    private var window: UnsafeMutablePointer<GtkWindow>? {
        asking.flatMap { gtk_widget_get_root($0) }.map { UnsafeMutablePointer($0) }
    }

    /// Asks the desktop to open the page.
    ///
    /// - Throws: `DesktopError` for an address that ``opens(_:)`` refuses, or if no program could be started.
    @MainActor public func open(_ url: URL) async throws(DesktopError) {
        guard opens(url) else { throw DesktopError("Only http and https pages are opened in a browser.") }
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
    private let clipboard: OpaquePointer
    /// The copied text in GTK's form, or `nil` if nothing was copied.
    private var copied: OpaquePointer?

    init(of widget: Widget) { clipboard = gdk_display_get_clipboard(gtk_widget_get_display(widget)) }

    /// Copies `text`. The program keeps the text, and passes it to each program that pastes.
    @MainActor func copy(_ text: String) async throws(DesktopError) -> ClipboardOutcome {
        gdk_clipboard_set_text(clipboard, text)
        copied = gdk_clipboard_get_content(clipboard).map { OpaquePointer($0) }
        return .copied
    }

    /// Removes the copied text, unless the user has copied something else since then.
    func forget() {
        guard let copied else { return }
        self.copied = nil
        if gdk_clipboard_get_content(clipboard).map({ OpaquePointer($0) }) == copied {
            gdk_clipboard_set_content(clipboard, nil)
        }
    }
}
