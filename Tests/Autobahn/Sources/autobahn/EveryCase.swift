import Glibc

/// Runs all cases, `parallel` of them at a time, says now and then how far it has come, and asks for the report.
func runEveryCase(of server: FuzzingServer, parallel: Int) async throws {
    let count = try await server.caseCount()
    let clock = ContinuousClock()
    let start = clock.now
    try await withThrowingTaskGroup(of: Void.self) { group in
        var done = 0
        var next = 1
        var said = start
        while done < count {
            while next <= count, next - done <= parallel {
                let number = next
                group.addTask { try await server.run(number) }
                next += 1
            }
            try await group.next()
            done += 1
            guard done == count || clock.now - said > .seconds(20) else { continue }
            said = clock.now
            say("  \(done) of \(count) cases at \(server.base) after \((said - start).components.seconds) s")
        }
    }
    try await server.updateReports()
}

/// Unlike `print`, at once.
private func say(_ line: String) {
    let bytes = Array((line + "\n").utf8)
    _ = bytes.withUnsafeBytes { write(STDOUT_FILENO, $0.baseAddress, $0.count) }
}
