import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import Synchronization

/// The log of a server: its standard error, and what goes to and fro in outline. It never has contents, arguments or
/// header fields; whatever looks like a secret is left out.
final class MCPLog: Sendable {
    /// Bytes of a line of the server, of which the log has the beginning.
    private static let lineLimit = 4096

    private let take: @Sendable (String) -> Void
    private let secrets: [String]
    /// The line of standard error that has no end yet.
    private let line = Mutex<[UInt8]>([])

    /// - Parameters:
    ///   - given: texts that the server was given and might repeat; texts of 8 bytes and more are left out.
    ///   - take: takes each line, without a line feed. It may be called from several threads.
    init(without given: [String], _ take: @escaping @Sendable (String) -> Void) {
        secrets = given.filter { $0.utf8.count >= 8 }.sorted { $0.utf8.count > $1.utf8.count }
        self.take = take
    }

    func note(_ words: String) { write(words) }

    private func write(_ line: String) {
        take(secrets.reduce(line) { $0.replacing($1, with: UntrustedText.redacted) })
    }

    /// A message to the server.
    func sent(_ message: ChappieJSON) {
        let method = message["method"]?.string ?? "answer"
        let number = message["id"]?.int.map { " \($0)" } ?? ""
        let name = UntrustedText.message(message["params"]?["name"]?.string, limit: 64).map { " \($0)" } ?? ""
        write("→ \(method)\(number)\(name), \(message.serializedBytes().count) bytes")
    }

    /// The outcome of the request `id`.
    func finished(_ id: Int, _ result: Result<ChappieJSON, ChappieMCPError>, after time: Duration) {
        let outcome =
            switch result {
            case .success(let value): "\(value.serializedBytes().count) bytes"
            case .failure(let error): error.reason
            }
        write("← \(id) \(outcome), after \(Int(time / .milliseconds(1))) ms")
    }

    /// Bytes of the server's standard error; they may begin and end anywhere in a line.
    func errors(_ bytes: [UInt8]) {
        let lines = line.withLock { line in
            var lines: [[UInt8]] = []
            for piece in bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false) {
                line += piece.prefix(Self.lineLimit - line.count)
                lines.append(line)
                line = []
            }
            // The last piece has no end.
            line = lines.removeLast()
            return lines
        }
        lines.forEach(writeWords)
    }

    /// The server has ended: its last line may have no end.
    func errorsEnded() {
        writeWords(
            line.withLock { line in
                defer { line = [] }
                return line
            })
    }

    private func writeWords(_ line: [UInt8]) {
        if let words = UntrustedText.message(String(decoding: line, as: UTF8.self), limit: 1000) { write("! \(words)") }
    }
}
