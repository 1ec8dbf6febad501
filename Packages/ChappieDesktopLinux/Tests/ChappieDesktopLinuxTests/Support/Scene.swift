import Synchronization

@testable import ChappieDesktopLinux

/// A made-up machine: what is installed, how programs end, whether there is a terminal; and a record of what was done.
final class Scene: Sendable {
    struct Record {
        var processes: [ChildProcess] = []
        var terminal: [UInt8] = []
    }

    let environment: DesktopEnvironment
    private let record: Shared

    init(
        _ variables: [String: String], programs: Set<String> = [], sockets: Set<String> = [], hasTerminal: Bool = false,
        outcomes: [String: ChildOutcome] = [:]
    ) {
        let record = Shared()
        self.record = record
        environment = DesktopEnvironment(
            variables: variables.merging(["PATH": "relative::/first:/usr/bin"]) { given, _ in given },
            isExecutable: { programs.contains($0) },
            isSocket: { sockets.contains($0) },
            run: { process in
                record.value.withLock { $0.processes.append(process) }
                return outcomes[process.path] ?? .exited(code: 0, words: "")
            },
            writeToTerminal: { bytes in
                if hasTerminal { record.value.withLock { $0.terminal += bytes } }
                return hasTerminal
            })
    }

    var processes: [ChildProcess] { record.value.withLock(\.processes) }
    var terminal: [UInt8] { record.value.withLock(\.terminal) }

    private final class Shared: Sendable {
        let value = Mutex(Record())
    }
}
