import ChappieSimulatorServer
import Dispatch
import FoundationEssentials
import TestFixtures
import Testing

/// A server with many users in a process of its own, whose threads, memory and open files are counted.
@Suite(.serialized) struct ManyUsersTests {
    /// Runs the server, and returns the lines that it prints.
    private func run(
        _ role: String, users: Int, openFiles: Int = 4096, environment: [String: String] = [:]
    ) async throws -> [String] {
        let folder = try TemporaryDirectory()
        let tests = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        let program = URL(filePath: tests).deletingLastPathComponent().path + "/ManyUsers"
        let simulator = try await Simulator.start(SimulatorConfiguration(autoApprove: true, pollInterval: 0))
        let home = ["HOME": folder.path("home"), "XDG_STATE_HOME": folder.path("state")]
        try FileManager.default.createDirectory(atPath: folder.path("users"), withIntermediateDirectories: true)
        try FileManager.default.createDirectory(atPath: folder.path("home"), withIntermediateDirectories: true)
        let server = try RunningProgram(
            "/bin/sh",
            [
                "-c", #"ulimit -n "$1" && shift && exec "$@""#, "sh", "\(openFiles)", program, role,
                folder.path("users"), "\(simulator.issuer.port ?? 0)", "\(users)",
            ], environment: environment.merging(home) { $1 }, output: .pipe, errors: .inherited, isGuarded: true)
        let output = try #require(server.output)
        let (lines, status) = await withCheckedContinuation { result in
            DispatchQueue.global().async {
                var lines: [String] = []
                while let line = output.line() { lines.append(line) }
                result.resume(returning: (lines, server.wait()))
            }
        }
        await simulator.stop()
        #expect(status == 0)
        return lines
    }

    @Test(.timeLimit(.minutes(5))) func `300 busy users use few threads`() async throws {
        let threads = try #require(Int(await run("busy", users: 300).first ?? ""))
        // The threads of the pool, of Dispatch, of the network, and four for the notes.
        #expect(threads <= 40)
    }

    @Test(.timeLimit(.minutes(5))) func `users who have left keep no memory`() async throws {
        // The allocator's own caches count as used, and would hide the difference.
        let lines = try await run("leaving", users: 50, environment: ["GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"])
        let bytes = lines.compactMap(Int.init)
        try #require(bytes.count == 6)
        // A round's last connections may still be open, so the smallest numbers are compared.
        let growth = (bytes[3...].min() ?? 0) - (bytes[..<3].min() ?? 0)
        #expect(growth / 150 < 2048, "bytes in use after each round: \(bytes)")
    }

    @Test(.timeLimit(.minutes(5))) func `too many open files is an error that names the limit`() async throws {
        let errors = try await run("crowd", users: 100, openFiles: 40)
        #expect(errors.contains { $0.contains("this program may not open more files (its limit is 40)") })
        #expect(errors.contains { $0.contains("LimitNOFILE") })
        #expect(!errors.contains { $0.contains("no connection.") })
    }
}
