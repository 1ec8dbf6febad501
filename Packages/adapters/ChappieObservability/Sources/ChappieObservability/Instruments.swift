#if Observability
    import Metrics
    import Synchronization

    /// The dimensions of a metric, in a fixed order.
    typealias Dimensions = [(String, String)]

    /// The instruments of a process. Each is created once, because swift-metrics creates a handler for each one.
    ///
    /// A metric has at most ``limit`` series. All values beyond that are in one more series, so that no combination of
    /// names can fill an operator's backend.
    final class Instruments: Sendable {
        static let limit = 150

        private struct Key: Hashable {
            let label: String
            let dimensions: [String]
        }

        private struct State {
            var counters: [Key: Counter] = [:]
            var recorders: [Key: Recorder] = [:]
            var meters: [Key: Meter] = [:]
            /// The number of series of each metric.
            var counts: [String: Int] = [:]
        }

        private let factory: any MetricsFactory
        private let state = Mutex(State())

        init(factory: any MetricsFactory) { self.factory = factory }

        func count(_ label: String, _ dimensions: Dimensions = []) {
            instrument(\.counters, label, dimensions) {
                Counter(label: $0, dimensions: $1, factory: factory)
            }.increment()
        }

        func record(_ value: Double, _ label: String, _ dimensions: Dimensions = []) {
            instrument(\.recorders, label, dimensions) {
                Recorder(label: $0, dimensions: $1, aggregate: true, factory: factory)
            }.record(value)
        }

        func record(_ duration: Duration, _ label: String, _ dimensions: Dimensions = []) {
            record(duration / .seconds(1), label, dimensions)
        }

        func change(by change: Int, _ label: String, _ dimensions: Dimensions = []) {
            let meter = instrument(\.meters, label, dimensions) {
                Meter(label: $0, dimensions: $1, factory: factory)
            }
            if change < 0 { meter.decrement(by: Double(-change)) } else { meter.increment(by: Double(change)) }
        }

        private func instrument<Instrument: Sendable>(
            _ known: WritableKeyPath<State, [Key: Instrument]>, _ label: String, _ dimensions: Dimensions,
            _ make: (String, Dimensions) -> Instrument
        ) -> Instrument {
            let key = Key(label: label, dimensions: dimensions.flatMap { [$0.0, $0.1] })
            return state.withLock { state in
                if let instrument = state[keyPath: known][key] { return instrument }
                guard state.counts[label, default: 0] < Self.limit else {
                    let overflow = Key(label: label, dimensions: [Name.overflow])
                    if let instrument = state[keyPath: known][overflow] { return instrument }
                    let instrument = make(label, [(Name.overflow, "true")])
                    state[keyPath: known][overflow] = instrument
                    return instrument
                }
                let instrument = make(label, dimensions)
                state.counts[label, default: 0] += 1
                state[keyPath: known][key] = instrument
                return instrument
            }
        }
    }

    /// The names of one dimension: the first ones of the process, and one name for all others.
    final class BoundedNames: Sendable {
        static let limit = 40

        private let known = Mutex<Set<String>>([])

        func name(_ name: String?) -> String {
            guard let name else { return ErrorType.other }
            return known.withLock { known in
                if known.contains(name) { return name }
                guard known.count < Self.limit else { return ErrorType.other }
                known.insert(name)
                return name
            }
        }
    }
#endif
