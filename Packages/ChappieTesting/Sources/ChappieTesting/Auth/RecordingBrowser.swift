public import ChappieAuth
public import FoundationEssentials
import Synchronization

/// ``Browser`` that opens nothing and remembers what it was asked to open.
public final class RecordingBrowser: Browser {
    private let urls = Mutex<[URL]>([])
    private let error: DesktopError?

    /// - Parameter error: what every call fails with, after remembering it. Default: none.
    public init(failingWith error: DesktopError? = nil) { self.error = error }

    /// The addresses that were opened, in order.
    public var openedURLs: [URL] { urls.withLock { $0 } }

    public func open(_ url: URL) async throws(DesktopError) {
        urls.withLock { $0.append(url) }
        if let error { throw error }
    }
}
