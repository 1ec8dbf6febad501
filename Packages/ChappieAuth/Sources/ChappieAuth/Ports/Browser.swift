public import FoundationEssentials

/// Shows a web page to the person.
public protocol Browser: Sendable {
    /// Opens `url` and returns once the browser has been asked to; it can't be known whether a page appeared.
    ///
    /// - Throws: ``DesktopError`` when there is no way to open a page here.
    func open(_ url: URL) async throws(DesktopError)
}
