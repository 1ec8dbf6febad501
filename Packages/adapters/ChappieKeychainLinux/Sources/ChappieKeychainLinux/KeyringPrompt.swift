import CSecret

/// A prompt that the keyring service shows to the user for this process (org.freedesktop.Secret.Prompt).
///
/// This class runs the prompt instead of libsecret. libsecret waits forever for a service that does not report that a
/// prompt has ended, and its unlocking (0.20) never returns after the user dismissed a prompt.
///
/// <https://specifications.freedesktop.org/secret-service/latest/org.freedesktop.Secret.Prompt.html>
final class KeyringPrompt {
    enum Outcome { case accepted, dismissed, unanswered, vanished }

    private static let interface = "org.freedesktop.Secret.Prompt"

    private let connection: BusConnection
    private let service: String
    private let path: String
    private var outcome: Outcome?

    /// Creates a prompt that has not been shown.
    ///
    /// - Parameter service: The name of the service on the bus.
    init(of service: String, at path: String, on connection: BusConnection) {
        self.service = service
        self.path = path
        self.connection = connection
    }

    /// Shows the prompt and waits for its end. The outcome is also `vanished` if the call was cancelled or the bus
    /// connection was closed. If the call is cancelled or the prompt has not ended in time, the prompt is withdrawn.
    ///
    /// - Parameter limit: The limit of this prompt, after which it is `unanswered`. The default is the limit of the
    ///   call.
    func run(within limit: Duration? = nil) throws -> Outcome {
        let end = limit.map { ContinuousClock.now + $0 }
        func isLate() -> Bool { end.map { $0 <= .now } ?? false }
        // The subscriptions precede the call, because the end may be reported before the answer to the call.
        let subscriptions = [
            subscribe(to: "Completed", of: Self.interface, at: path, from: service),
            subscribe(
                to: "NameOwnerChanged", of: "org.freedesktop.DBus", at: "/org/freedesktop/DBus",
                from: "org.freedesktop.DBus", about: service),
        ]
        defer {
            for id in subscriptions { g_dbus_connection_signal_unsubscribe(connection.object.pointer, id) }
            // The call may also end before the service has confirmed that it shows the prompt.
            if connection.cancellation.isCancelled || outcome == nil && isLate() { dismiss() }
        }
        _ = try call("Prompt", [.text("")])
        if let end { connection.cancellation.wake(at: end) }
        while outcome == nil, !isLate(), !connection.cancellation.isCancelled, !connection.isClosed {
            connection.cancellation.waitForSignals()
        }
        return outcome ?? (isLate() ? .unanswered : .vanished)
    }

    /// Withdraws the prompt. The answer does not matter, and a service that does not answer must not delay the next
    /// call for long.
    func dismiss() { _ = try? call("Dismiss", milliseconds: 500) }

    private func call(
        _ method: String, _ arguments: [BusArgument] = [], milliseconds: Int32? = nil
    ) throws -> BusValue {
        try connection.call(
            method, of: Self.interface, at: path, in: service, arguments, milliseconds: milliseconds)
    }

    /// Subscribes to a signal.
    ///
    /// - Parameter first: The first argument of the signals to deliver, or `nil` for any.
    private func subscribe(
        to name: String, of interface: String, at path: String, from sender: String, about first: String? = nil
    ) -> UInt32 {
        // This object outlives the subscription, which ends within `run`.
        g_dbus_connection_signal_subscribe(
            connection.object.pointer, sender, interface, name, path, first, UInt32(CS_SIGNAL_NONE),
            { _, _, _, _, _, arguments, data in
                guard let arguments, let data else { return }
                let prompt = Unmanaged<KeyringPrompt>.fromOpaque(data).takeUnretainedValue()
                prompt.received(BusValue(retaining: arguments))
            }, Unmanaged.passUnretained(self).toOpaque(), nil)
    }

    /// Takes a signal's arguments. Ignores arguments of any other type.
    private func received(_ arguments: BusValue) {
        guard outcome == nil else { return }
        switch arguments.type {
        case "(bv)": outcome = arguments.member(0, ofTuple: "(bv)")?.bool == false ? .accepted : .dismissed
        case "(sss)": outcome = .vanished
        default: break
        }
    }
}
