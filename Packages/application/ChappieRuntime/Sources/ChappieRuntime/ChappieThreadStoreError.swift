@_spi(ChappieInternals) public import ChappieCore

/// The reason why a store of threads failed. Each case has a different sentence for the user.
public enum ChappieThreadStoreError: Error, Sendable, Hashable {
    /// The thread is missing.
    case notFound(thread: String)
    /// Another process has written to the thread, which now ends at `actual`.
    case conflict(thread: String, expected: Int, actual: Int)
    /// The addition would exceed the limit. Both numbers are bytes. Everything that was stored before is kept.
    case full(bytes: Int, limit: Int)
    /// The stored data can't be trusted, because it was changed, exchanged or cut. `thread` is `nil` if the damage is
    /// not in only one thread.
    case damaged(thread: String?, String)
    /// The threads are encrypted, and their key is not available. The string states the reason.
    case locked(String)
    /// The key of these threads is missing, or it is a different key.
    case wrongKey(String)
    /// A newer version of the program wrote the store, its key, a backup or an export.
    case tooNew(found: Int, known: Int)
    /// Others could read or change a file or folder. The strings are the problem and the remedy.
    case unsafeFile(String, remedy: String)
    /// A file is not a backup, or it is damaged. The stored threads are unchanged.
    case badBackup(String)
    /// Another process kept the store busy for this time.
    case busy(Duration)
    /// The disk or the server failed. The string is its own message.
    case unavailable(String)
}

extension ChappieThreadStoreError {
    /// Whether other threads can still be read and written.
    @_spi(ChappieInternals) public var concernsOneThread: Bool {
        switch self {
        case .notFound, .conflict: true
        case .damaged(let thread, _): thread != nil
        default: false
        }
    }
}

extension ChappieThreadStoreError: ChappieError {
    /// A sentence for the user.
    public var errorDescription: String? {
        switch self {
        case .notFound(let thread): "There is no thread \(thread)."
        case .conflict(let thread, let expected, let actual):
            "The thread \(thread) has \(actual) records instead of \(expected): another program wrote to it."
        case .full(let bytes, let limit): "The threads would take \(bytes) bytes of the \(limit) they may have."
        case .damaged(let thread, let reason):
            thread.map { "The thread \($0) is damaged: \(reason)." } ?? "The stored threads are damaged: \(reason)."
        case .locked(let reason): "The threads are encrypted and can't be read now: \(reason)."
        case .wrongKey(let reason): "The threads can't be decrypted: \(reason)."
        case .tooNew(let found, let known):
            "The threads were written by a newer version of this program (format \(found), this version knows \(known))."
        case .unsafeFile(let reason, _): "This is not safe to use: \(reason)."
        case .badBackup(let reason): "The backup can't be restored: \(reason)."
        case .busy(let limit): "Another program kept the threads busy for more than \(limit.components.seconds) s."
        case .unavailable(let reason): "The threads can't be reached: \(reason)."
        }
    }

    /// The user's next step.
    public var recoverySuggestion: String? {
        switch self {
        case .notFound: "List the threads to see their ids."
        case .conflict: "Open the thread again and continue from there."
        case .full: "Delete threads that are not needed, or raise the limit. Nothing was lost."
        case .damaged:
            "Repair the threads, which keeps everything that can be read, and restore the rest from a backup."
        case .locked: "Unlock the keyring or give the right passphrase, and try again."
        case .wrongKey:
            """
            Restore a backup, which has the key. Without one, the threads stay unreadable, and deleting their folder starts \
            a new store.
            """
        case .tooNew: "Update this program. Nothing was changed."
        case .unsafeFile(_, let remedy): remedy
        case .badBackup: "Use another backup. The stored threads are unchanged."
        case .busy: "Try again in a moment; if it stays so, look for a program that hangs."
        case .unavailable: "Correct the cause, and try again. Everything that was stored before is kept."
        }
    }
}
