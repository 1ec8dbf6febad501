import Foundation

/// How much longer than usual things may take: a sanitizer slows a program by some times, and `Scripts/test --sanitize`
/// says so.
enum Patience {
    static let factor = ProcessInfo.processInfo.environment["TEST_PATIENCE"].flatMap(Int.init) ?? 1
}
