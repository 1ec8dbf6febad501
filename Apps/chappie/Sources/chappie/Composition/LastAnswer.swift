import ChappieSDK
import FoundationEssentials
import Glibc

/// How an account's last answer travelled, kept for `chappie status` in
/// `$XDG_STATE_HOME/chappie/last-answer-ACCOUNT.json`: the kind of transport, reconnects, the moment; nothing of what was
/// said.
struct LastAnswer {
    private let path: String
    private let account: String

    /// `nil` where there is no home.
    ///
    /// - Parameter account: whose answers are meant; another account's last answer is nobody's business.
    init?(environment: ProgramEnvironment, account: String) {
        guard let state = environment["XDG_STATE_HOME"] ?? environment["HOME"].map({ $0 + "/.local/state" }),
            state.hasPrefix("/")
        else { return nil }
        self.account = account
        path = state + "/chappie/last-answer-\(Self.fileName(of: account)).json"
    }

    /// Another one for each account, whatever is in its name. (One that is too long for a file is not kept.)
    private static func fileName(of account: String) -> String {
        account.utf8.map { byte in
            let character = Character(Unicode.Scalar(byte))
            let isPlain = character.isASCII && (character.isLetter || character.isNumber || "-_".contains(character))
            return isPlain ? String(character) : "%" + String(byte, radix: 16)
        }.joined()
    }

    /// Keeps `summary`. What can't be kept is no loss.
    func keep(_ summary: TransportSummary, backend: String, now: Date = Date()) {
        guard summary.kind != nil || summary.reconnects > 0 else { return }
        let record: ChappieJSON = [
            "account": .string(account), "transport": summary.json, "at": .string(now.formatted(.iso8601)),
            "backend": .string(backend),
        ]
        _ = PrivateFile.replace(path, with: record.serializedBytes())
    }

    /// What was kept, if it can be read.
    func read() -> ChappieJSON? {
        guard access(path, R_OK) == 0, let bytes = try? SmallFile.read(path),
            let record = try? ChappieJSON(parsing: bytes), record["account"]?.string == account
        else { return nil }
        return record
    }
}
