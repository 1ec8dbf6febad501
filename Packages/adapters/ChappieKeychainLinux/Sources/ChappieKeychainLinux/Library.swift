import CSecret
import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import Dispatch

/// The libsecret of this machine.
enum SecretLibrary {
    /// The result of opening the library, which happens once per process. It stays open, because GObject types can't be
    /// unloaded.
    private static let opened = open("libsecret-1.so.0")

    /// Makes the functions of CSecret usable.
    ///
    /// - Throws: `absent` if the library is missing or too old.
    static func require() throws(CredentialStoreError) { try opened.get() }

    static func open(_ name: String) -> Result<Void, CredentialStoreError> {
        guard let problem = csecret_open(name) else { return .success(()) }
        let words = String(cString: problem)
        return .failure(.absent("the library libsecret could not be opened (\(words)); Debian calls it libsecret-1-0"))
    }
}

/// A GError as a value, and its meaning to the user.
struct LibraryError: Error, Hashable {
    /// The D-Bus name of an error that was received over the bus.
    var name: String?
    /// GIO's number, if the error comes from GIO.
    var ioCode: Int?
    /// Whether the error occurred while the process connected to the bus.
    var isConnecting = false
    var message: String

    /// Calls one C function that reports errors through a GError.
    ///
    /// - Throws: ``LibraryError``, which is the error that the function reported, or states that it returned no result.
    static func catching(
        isConnecting: Bool = false, _ call: (UnsafeMutablePointer<UnsafeMutablePointer<CSError>?>) -> OpaquePointer?
    ) throws -> OpaquePointer {
        var error: UnsafeMutablePointer<CSError>?
        let output = call(&error)
        guard let error else {
            if let output { return output }
            throw LibraryError(message: "the library gave neither a result nor a reason")
        }
        defer { g_error_free(error) }
        let name = g_dbus_error_get_remote_error(error)
        defer { g_free(name) }
        // "GDBus.Error:org.freedesktop.DBus.Error.AccessDenied: " means nothing to the user.
        _ = g_dbus_error_strip_remote_error(error)
        throw LibraryError(
            name: name.map { String(cString: $0) },
            ioCode: error.pointee.domain == g_io_error_quark() ? Int(error.pointee.code) : nil,
            isConnecting: isConnecting, message: clean(error.pointee.message.map { String(cString: $0) } ?? ""))
    }

    /// Returns a message from outside in a form that fits into the middle of a sentence.
    static func clean(_ words: String) -> String {
        var text = UntrustedText.message(words) ?? ""
        while text.last == "." || text.last == " " { text.removeLast() }
        return text.isEmpty ? "no reason given" : text
    }

    func meaning(deadline: Duration) -> CredentialStoreError {
        switch (busName, ioCode) {
        case ("ServiceUnknown", _), ("NameHasNoOwner", _):
            .absent("no keyring service (org.freedesktop.secrets) is on the session bus")
        case _ where saysThereIsNoService: .absent("the keyring service could not be started (\(message))")
        case ("AccessDenied", _), ("AuthFailed", _), (_, CS_IO_ERROR_PERMISSION_DENIED): .denied(message)
        case ("Timeout", _), ("TimedOut", _), (_, CS_IO_ERROR_TIMED_OUT): .timedOut(deadline)
        // Nothing reads the error of a call that this process cancelled, so the user dismissed a prompt.
        case (_, CS_IO_ERROR_CANCELLED): .denied("the prompt was dismissed")
        case _ where name == "org.freedesktop.Secret.Error.IsLocked":
            .locked("the keyring service will not use it before it is unlocked")
        case _ where isConnecting: .absent("the session bus can't be reached (\(message))")
        case (_, CS_IO_ERROR_CLOSED): .failed("the session bus closed the connection")
        default: .failed(message)
        }
    }

    /// Whether the object no longer exists. The service then does not know the object, or the object does not know the
    /// method.
    var saysThereIsNoSuchObject: Bool {
        name == "org.freedesktop.Secret.Error.NoSuchObject" || busName == "UnknownObject" || busName == "UnknownMethod"
    }

    /// Whether the service does not run and the bus could not start it.
    var saysThereIsNoService: Bool {
        busName == "ServiceUnknown" || busName == "NameHasNoOwner" || busName?.hasPrefix("Spawn.") == true
    }

    /// Whether no bus listens at the address. The socket is missing, or a bus that has ended left it.
    var saysThereIsNoBus: Bool { ioCode == CS_IO_ERROR_NOT_FOUND || ioCode == CS_IO_ERROR_CONNECTION_REFUSED }

    /// The name without D-Bus's own prefix, such as `AccessDenied`, or `nil` for another prefix.
    var busName: String? {
        let prefix = "org.freedesktop.DBus.Error."
        return name.flatMap { $0.hasPrefix(prefix) ? String($0.dropFirst(prefix.count)) : nil }
    }
}

/// A reference to a GObject.
final class LibraryObject {
    let pointer: OpaquePointer

    /// Creates an object that takes over the caller's reference.
    init(owning pointer: OpaquePointer) { self.pointer = pointer }

    deinit { g_object_unref(UnsafeMutableRawPointer(pointer)) }
}

/// A GCancellable, which ends the blocking calls that it was passed to, and the wait for signals.
///
/// It can be created only after ``SecretLibrary/require()``.
final class Cancellation: Sendable {
    // GIO documents g_cancellable_cancel and g_cancellable_is_cancelled as safe on any thread. The pointer never
    // changes, and this object holds the only reference until its deinit. Swift can't know any of this.
    nonisolated(unsafe) let pointer = g_cancellable_new()
    private let context: ThreadContext

    init(of context: ThreadContext) { self.context = context }

    deinit { if let pointer { g_object_unref(UnsafeMutableRawPointer(pointer)) } }

    var isCancelled: Bool { g_cancellable_is_cancelled(pointer) != 0 }

    func cancel() {
        g_cancellable_cancel(pointer)
        g_main_context_wakeup(context.pointer)
    }

    /// Ends a wait for signals at this time.
    func wake(at time: ContinuousClock.Instant) {
        let rest = Int((time - .now) / .microseconds(1)) + 1
        DispatchQueue.global().asyncAfter(deadline: .now() + .microseconds(rest)) { [context] in
            g_main_context_wakeup(context.pointer)
        }
    }

    /// Delivers the signals that have arrived, and waits for one if there is none. A cancellation ends the wait.
    func waitForSignals() { _ = g_main_context_iteration(context.pointer, 1) }
}

/// A main context that belongs to one thread at a time.
///
/// Without it, the library's signals would accumulate in the process's main context, which may never run. Signals that
/// wait keep their context and their connection alive until the context runs again. For this reason, a kept connection
/// keeps its context.
final class ThreadContext: Sendable {
    // A GMainContext has its own lock. The pointer never changes, and this object holds the only reference until its
    // deinit. Swift can't know any of this.
    nonisolated(unsafe) let pointer = g_main_context_new()

    deinit { g_main_context_unref(pointer) }

    /// Runs `body` under the context, and then delivers the events that arrived for it.
    func run<Output>(_ body: () throws -> Output) rethrows -> Output {
        g_main_context_push_thread_default(pointer)
        defer {
            // The library frees some of its objects in these events.
            while g_main_context_iteration(pointer, 0) != 0 {}
            g_main_context_pop_thread_default(pointer)
        }
        return try body()
    }
}
