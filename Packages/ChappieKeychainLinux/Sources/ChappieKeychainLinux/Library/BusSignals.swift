import CSecret

/// Waits for signals on the current thread's own context (see ``ThreadContext``).
///
/// Everything happens on that one thread: signals are delivered while it waits, and at no other time.
final class BusSignals {
    /// Takes a signal's arguments, a tuple of the type that was subscribed to, and answers whether the waiting is over.
    typealias Handler = (BusValue) -> Bool

    private final class Subscription {
        let type: String
        let handler: Handler
        unowned let signals: BusSignals
        var id: UInt32 = 0

        init(type: String, signals: BusSignals, handler: @escaping Handler) {
            self.type = type
            self.signals = signals
            self.handler = handler
        }
    }

    private let connection: LibraryObject
    private let cancellation: Cancellation
    private var subscriptions: [Subscription] = []
    private var isOver = false

    init(of connection: LibraryObject, cancellation: Cancellation) {
        self.connection = connection
        self.cancellation = cancellation
    }

    deinit {
        for subscription in subscriptions { g_dbus_connection_signal_unsubscribe(connection.pointer, subscription.id) }
    }

    /// - Parameters:
    ///   - type: The arguments' type in D-Bus's notation; a signal with any other is passed over.
    ///   - first: What the first argument has to be; `nil` for anything.
    func subscribe(
        to name: String, of interface: String, at path: String, from sender: String, first: String? = nil,
        type: String, _ handler: @escaping Handler
    ) {
        let subscription = Subscription(type: type, signals: self, handler: handler)
        // The array keeps it alive for as long as a signal can come.
        subscriptions.append(subscription)
        subscription.id = g_dbus_connection_signal_subscribe(
            connection.pointer, sender, interface, name, path, first, CSSignalFlags(CS_SIGNAL_NONE),
            { _, _, _, _, _, arguments, data in
                guard let arguments, let data else { return }
                let subscription = Unmanaged<Subscription>.fromOpaque(data).takeUnretainedValue()
                let value = BusValue(retaining: arguments)
                if value.type == subscription.type, subscription.handler(value) { subscription.signals.isOver = true }
            }, Unmanaged.passUnretained(subscription).toOpaque(), nil)
    }

    /// Returns once a handler has said so, the call was given up, or the bus has closed the connection.
    func wait() {
        let context = g_main_context_get_thread_default()
        // Wakes the context; without a callback GLib would complain.
        let source = g_cancellable_source_new(cancellation.pointer)
        g_source_set_callback(source, { _ in 0 }, nil, nil)
        _ = g_source_attach(source, context)
        defer {
            g_source_destroy(source)
            g_source_unref(source)
        }
        while !isOver, !cancellation.isCancelled, g_dbus_connection_is_closed(connection.pointer) == 0 {
            _ = g_main_context_iteration(context, 1)
        }
    }
}
