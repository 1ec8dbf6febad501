@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
import ChappieSDK
import FoundationEssentials
import Glibc

/// The transport of an account's last answer. It is kept for `chappie status` in
/// `$XDG_STATE_HOME/chappie/last-answer-ACCOUNT.json`. The file contains the kind of transport, the reconnects and the
/// time, but no part of the conversation.
struct LastAnswer {
    private let path: String
    private let account: ChappieJSON
    private let backend: ChappieJSON

    /// Returns `nil` without a home directory.
    init?(environment: ProgramEnvironment, configuration: ChappieConfiguration) {
        guard let folder = environment.folders.state else { return nil }
        account = .string(configuration.keychainAccount)
        backend = .string(configuration.endpoints.backend.absoluteString)
        path = "\(folder)/last-answer-\(Self.fileName(of: configuration.keychainAccount)).json"
    }

    /// Returns a different name for each account, whatever characters the account's name contains. (Nothing is kept if
    /// the name is too long for a file.)
    private static func fileName(of account: String) -> String {
        account.utf8.map { byte in
            let character = Character(Unicode.Scalar(byte))
            let isPlain = character.isASCII && (character.isLetter || character.isNumber || "-_".contains(character))
            return isPlain ? String(character) : "%" + String(byte, radix: 16)
        }.joined()
    }

    /// Keeps `summary` and ignores a failure.
    func keep(_ summary: TransportSummary, now: Date = Date()) {
        guard summary.kind != nil || summary.reconnects > 0 else { return }
        let record: ChappieJSON = [
            "account": account, "transport": summary.json, "at": .string(now.formatted(.iso8601)), "backend": backend,
        ]
        try? PrivateFile.replace(path, with: record.serializedBytes(), isDurable: false)
    }

    /// Returns the record, or `nil` if it is missing or belongs to another account or backend.
    func read() -> ChappieJSON? {
        guard access(path, R_OK) == 0, let bytes = try? WholeFile.read(path),
            let record = try? ChappieJSON(parsing: bytes), record["account"] == account,
            record["backend"] == backend
        else { return nil }
        return record
    }
}
