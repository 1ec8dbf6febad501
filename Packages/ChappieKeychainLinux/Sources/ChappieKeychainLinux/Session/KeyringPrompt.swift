import CSecret

/// A prompt that the keyring service shows the person on our behalf (org.freedesktop.Secret.Prompt).
///
/// Run here and not by libsecret, which waits for ever on services that don't say when a prompt has ended, and whose
/// unlocking (0.20) never returns after a prompt was dismissed.
///
/// <https://specifications.freedesktop.org/secret-service/latest/org.freedesktop.Secret.Prompt.html>
struct KeyringPrompt {
    enum Outcome { case accepted, dismissed, vanished }

    let connection: BusConnection
    let cancellation: Cancellation
    let path: String

    static let service = "org.freedesktop.secrets"
    private static let interface = "org.freedesktop.Secret.Prompt"

    /// Shows it and waits for its end. A call that is given up takes the prompt back.
    func run() throws(LibraryFault) -> Outcome {
        var outcome = Outcome.vanished
        let signals = BusSignals(of: connection.object, cancellation: cancellation)
        // Before the call: the end may come before its answer.
        signals.subscribe(to: "Completed", of: Self.interface, at: path, from: Self.service, type: "(bv)") {
            arguments in
            outcome = arguments.member(0, ofTuple: "(bv)")?.bool == false ? .accepted : .dismissed
            return true
        }
        signals.subscribe(
            to: "NameOwnerChanged", of: "org.freedesktop.DBus", at: "/org/freedesktop/DBus",
            from: "org.freedesktop.DBus", first: Self.service, type: "(sss)"
        ) { _ in true }
        // Also when the call ends between the prompt and the service's answer that it is up.
        defer { if cancellation.isCancelled { dismiss() } }
        _ = try connection.call("Prompt", of: Self.interface, at: path, in: Self.service, [.text("")])
        signals.wait()
        return outcome
    }

    /// Nobody looks at the answer, and a service that does not give one must not hold up the next call for long.
    private func dismiss() {
        _ = try? connection.call(
            "Dismiss", of: Self.interface, at: path, in: Self.service, milliseconds: 500, isCancellable: false)
    }
}
