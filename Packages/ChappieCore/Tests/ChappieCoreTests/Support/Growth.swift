#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

/// How the work of a function grows with the size of its input, in processor time of the calling thread, so that other
/// tests and other processes don't count.
enum Growth {
    /// Does `work` with `size` and with sixteen times that size and gives the quotient of the times: about 16 where the
    /// work is linear, about 256 where it is quadratic. Printed, so that it can be followed.
    static func factor(_ name: String, size: Int, _ work: (_ size: Int) -> Void) -> Double {
        let small = best(of: 5) { work(size) }
        let large = best(of: 2) { work(size * 16) }
        // Below two milliseconds the small run tells more about caches and fresh pages than about the work; a quadratic
        // function is far above that at sixteen times the size.
        let factor = large / max(small, 2e-3)
        print("growth: \(name): \(size) → \(size * 16): × \(Int(factor.rounded())), \(Int(large * 1000)) ms")
        return factor
    }

    /// Far from both: what fits a cache and what does not may differ by some times, a quadratic function must fail.
    static let limit = 100.0

    private static func best(of runs: Int, _ work: () -> Void) -> Double {
        (0..<runs).map { _ in
            let start = threadTime()
            work()
            return threadTime() - start
        }.min() ?? 0
    }

    /// Seconds.
    private static func threadTime() -> Double {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }
}
