public import ChappieAuth
public import FoundationEssentials

/// A browser that opens web pages with xdg-open, which starts the user's browser on any Linux desktop.
///
/// ```swift
/// let browser = XDGOpenBrowser()
/// if browser.canOpen, let url = session.browserURL() { try await browser.open(url) }
/// ```
public struct XDGOpenBrowser: Browser {
    private let environment: DesktopEnvironment
    private let patience: Duration

    /// Creates a browser.
    ///
    /// - Parameters:
    ///   - environment: The environment with the display and xdg-open. The default is this process's.
    ///   - patience: The time for which ``open(_:)`` waits for a failure of xdg-open. A browser that stays in the
    ///     foreground keeps running after that. The default is 1 second.
    public init(environment: DesktopEnvironment = .current, patience: Duration = .seconds(1)) {
        self.environment = environment
        self.patience = patience
    }

    /// Whether there is a display and an xdg-open. Without a display, xdg-open would start a text browser, which would
    /// use the same terminal as this program.
    public var canOpen: Bool { environment.hasDisplay && environment.executable("xdg-open") != nil }

    /// Asks the desktop to show `url`, and returns when xdg-open has succeeded or the patience has expired.
    ///
    /// - Throws: ``DesktopError`` if `url` is not http or https, if the display or xdg-open is missing, or if xdg-open
    ///   fails. The program can't know whether a browser window appears.
    public func open(_ url: URL) async throws(DesktopError) {
        // Other schemes start programs, and a relative URL could be mistaken for an option.
        guard let scheme = url.scheme?.lowercased(), scheme == "http" || scheme == "https", url.host() != nil else {
            throw DesktopError("Only http and https pages are opened in a browser.")
        }
        guard environment.hasDisplay else {
            throw DesktopError(
                "There is no display here (neither WAYLAND_DISPLAY nor DISPLAY is set), so no browser can be opened. "
                    + "Open the page by hand, on any device.")
        }
        guard let program = environment.executable("xdg-open") else {
            throw DesktopError(
                "xdg-open is missing, so no browser can be opened. Install the package xdg-utils, or open the page by "
                    + "hand.")
        }
        let process = ChildProcess(
            path: program, arguments: [url.absoluteString], environment: environment.variables, limit: patience,
            atLimit: .leave)
        // xdg-open(1), "Exit codes".
        switch await environment.run(process) {
        // The code -1 means that xdg-open was started, but its end is not known.
        case .stillRunning, .exited(code: 0, _), .exited(code: -1, _): return
        case .exited(code: 3, _):
            throw DesktopError("xdg-open found no browser to open the page with. Open the page by hand, on any device.")
        case .exited(let code, _):
            throw DesktopError("xdg-open could not open the page (exit code \(code)). Open the page by hand.")
        case .notStarted(let reason):
            throw DesktopError("xdg-open could not be started (\(reason)). Open the page by hand.")
        }
    }
}
