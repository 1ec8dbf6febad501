#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// Wall clock and processor time, in milliseconds.
struct Interval: Sendable {
    var wall: Double
    var cpu: Double

    /// Since some moment.
    static var now: Interval { Interval(wall: read(CLOCK_MONOTONIC), cpu: read(CLOCK_PROCESS_CPUTIME_ID)) }

    static func - (end: Interval, begin: Interval) -> Interval {
        Interval(wall: end.wall - begin.wall, cpu: end.cpu - begin.cpu)
    }

    private static func read(_ clock: clockid_t) -> Double {
        var time = timespec()
        clock_gettime(clock, &time)
        return Double(time.tv_sec) * 1000 + Double(time.tv_nsec) / 1_000_000
    }
}

func median(_ values: [Double]) -> Double { values.sorted()[values.count / 2] }
func rounded(_ value: Double) -> Double { (value * 1000).rounded() / 1000 }
