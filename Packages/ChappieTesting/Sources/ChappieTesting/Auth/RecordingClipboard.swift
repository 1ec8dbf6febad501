public import ChappieAuth
import Synchronization

/// ``Clipboard`` that keeps what it was given.
public final class RecordingClipboard: Clipboard {
    private let texts = Mutex<[String]>([])
    private let outcome: Result<ClipboardOutcome, DesktopError>

    /// - Parameter outcome: what every call answers. Default: `.success(.copied)`.
    public init(_ outcome: Result<ClipboardOutcome, DesktopError> = .success(.copied)) { self.outcome = outcome }

    /// The texts that were copied, in order.
    public var copiedTexts: [String] { texts.withLock { $0 } }

    public func copy(_ text: String) async throws(DesktopError) -> ClipboardOutcome {
        texts.withLock { $0.append(text) }
        return try outcome.get()
    }
}
