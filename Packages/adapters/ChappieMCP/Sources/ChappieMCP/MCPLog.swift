import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import Synchronization

/// The log of a server. It contains the server's standard error and an outline of the messages in both directions. It
/// never contains contents, arguments or header fields, and it omits text that looks like a secret.
final class MCPLog: Sendable {
    /// The number of bytes that the log keeps from the beginning of each line of the server.
    private static let lineLimit = 4096

    private let take: @Sendable (String) -> Void
    private let secrets: [String]
    /// The line of standard error that is not complete yet.
    private let line = Mutex<[UInt8]>([])

    /// Creates a log.
    ///
    /// - Parameters:
    ///   - given: texts that the server was given and might repeat. Texts of 8 or more bytes are left out, unless they
    ///     are paths.
    ///   - take: receives each line, without a line feed. It may be called from several threads.
    init(without given: [String], _ take: @escaping @Sendable (String) -> Void) {
        secrets = given.filter { $0.utf8.count >= 8 && !$0.hasPrefix("/") }.sorted { $0.utf8.count > $1.utf8.count }
        self.take = take
    }

    func note(_ words: String) { write(words) }

    private func write(_ line: String) {
        take(secrets.reduce(line) { $0.replacing($1, with: UntrustedText.redacted) })
    }

    /// Logs a message to the server.
    func sent(_ message: ChappieJSON) {
        let method = message["method"]?.string ?? "answer"
        let number = message["id"]?.int.map { " \($0)" } ?? ""
        let name = UntrustedText.message(message["params"]?["name"]?.string, limit: 64).map { " \($0)" } ?? ""
        write("→ \(method)\(number)\(name), \(message.serializedBytes().count) bytes")
    }

    /// Logs the outcome of the request `id`.
    func finished(_ id: Int, _ result: Result<ChappieJSON, ChappieMCPError>, after time: Duration) {
        let outcome =
            switch result {
            case .success(let value): "\(value.serializedBytes().count) bytes"
            case .failure(let error): error.reason
            }
        write("← \(id) \(outcome), after \(Int(time / .milliseconds(1))) ms")
    }

    /// Logs bytes of the server's standard error. They may begin and end anywhere in a line.
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

    /// Logs the last line, which may have no end, after the server has ended.
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
