import Foundation
import TestFixtures
import Testing

extension OverTheWire {
    @Suite(.counterparts) struct ExitTests {
        /// `exit()` while the network's thread is inside OpenSSL, at a hundred moments.
        @Test func `a process may exit while its connections are being secured`() async throws {
            let there = try Counterparts.current
            let tests = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
            let program = URL(fileURLWithPath: tests).deletingLastPathComponent().path + "/ExitWhileConnecting"
            var statuses: [Int: Int] = [:]
            for moment in 0..<100 {
                let running = try RunningProgram(
                    program, ["wss://127.0.0.1:\(there.good)/", there.authority, String(500 * moment)],
                    output: .pipe, errors: .inherited)
                statuses[try await onOwnThread { running.wait() }, default: 0] += 1
            }
            #expect(statuses == [0: 100])
        }
    }
}
