import ChappieLineEditor
import Synchronization

/// A question for the address at which a browser on another machine has ended. It is repeated until the address is
/// right.
final class PastedAddress: Sendable {
    private let task = Mutex<Task<Void, Never>?>(nil)

    /// Begins to ask, and does nothing if it has already begun.
    ///
    /// - Parameters:
    ///   - host: the name of this machine in the address.
    ///   - complete: takes the address. Its error is shown, and the question is repeated.
    func begin(
        _ console: Console, host: String = "127.0.0.1", _ complete: @escaping @Sendable (String) async throws -> Void
    ) {
        task.withLock { task in
            guard task == nil else { return }
            console.line("If the browser runs on another machine, it ends at an address that can't be opened.")
            console.line("Copy that whole address, which begins with http://\(host), and paste it here.")
            task = Task { @concurrent in
                let reader = TerminalLineReader(console: console)
                while !Task.isCancelled {
                    guard case .text(let line)? = try? await reader.read(Question(prompt: "Address: ")) else { return }
                    let address = line.filter { !$0.isWhitespace }
                    guard !address.isEmpty else { continue }
                    do {
                        try await complete(address)
                        return
                    } catch {
                        let problem = CommandLineError(error)
                        console.note([problem.message, problem.suggestion].compactMap(\.self).joined(separator: " "))
                    }
                }
            }
        }
    }

    /// Stops asking.
    ///
    /// - Returns: whether it had begun to ask, so that the cursor is after the question.
    @discardableResult
    func end() -> Bool {
        let asked = task.withLock { task in
            defer { task = nil }
            return task
        }
        asked?.cancel()
        return asked != nil
    }
}
