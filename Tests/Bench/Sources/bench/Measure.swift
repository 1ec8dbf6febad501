/// Something that can be done again and again.
protocol Measure {
    var name: String { get }

    /// Does it once.
    ///
    /// - Returns: how many bytes of payload went through.
    func run() -> Int
}

extension Measure {
    /// Prints the best rate of five parts of the time, so that a neighbour's noise counts least.
    func measure(for seconds: Double) {
        let clock = ContinuousClock()
        let part = Duration.seconds(seconds / 5)
        _ = run()
        var best = 0.0
        for _ in 0..<5 {
            let begin = clock.now
            var bytes = 0
            repeat { bytes += run() } while clock.now - begin < part
            let elapsed = (clock.now - begin) / .nanoseconds(1)
            best = max(best, Double(bytes) / elapsed)
        }
        let rounded = (best * 1000).rounded() / 1000
        print(#"{"measure": "\#(name)", "gigabytes_per_second": \#(rounded)}"#)
    }
}
