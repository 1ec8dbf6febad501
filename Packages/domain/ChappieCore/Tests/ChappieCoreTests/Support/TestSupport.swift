@_spi(ChappieInternals) import ChappieCore
import Testing

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

/// Every way a test cuts a stream into chunks.
enum Chunking {
    /// The bytes in chunks of `size`; the last one may be shorter.
    static func chunks(of bytes: [UInt8], size: Int) -> [[UInt8]] {
        stride(from: 0, to: bytes.count, by: size).map { Array(bytes[$0..<min($0 + size, bytes.count)]) }
    }

    /// Calls `body` with the bytes in small chunks of every size, then cut in two at every point (both ends included,
    /// so that empty chunks occur), each with a label for messages.
    static func forEach(_ bytes: [UInt8], _ body: (_ chunks: [[UInt8]], _ label: String) -> Void) {
        for size in 1...32 { body(chunks(of: bytes, size: size), "chunks of \(size)") }
        for cut in 0...bytes.count { body([Array(bytes[..<cut]), Array(bytes[cut...])], "cut at \(cut)") }
    }
}

/// How the work of a function grows with the size of its input, in processor time of the calling thread, so that other
/// tests and other processes don't count.
enum Growth {
    /// Runs `work` with `size` and with sixteen times that size and returns the quotient of the times: about 16 if the
    /// work is linear, about 256 if it is quadratic. The quotient is printed, so that a reader can follow it.
    static func factor(_ name: String, size: Int, _ work: (_ size: Int) -> Void) -> Double {
        let small = best(of: 3) { work(size) }
        let large = best(of: 1) { work(size * 16) }
        // Below two milliseconds the small run shows more of caches and fresh pages than of the work; a quadratic
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
