@_spi(ChappieInternals) import ChappieClient
@_spi(ChappieInternals) import ChappieMCP
import FoundationEssentials

/// The program's knowledge of services and formats that change independently of it, and the date of that knowledge.
///
/// `Scripts/check` also reads this file (`Scripts/lib/outside.py`) and reports when the last check is long ago.
enum Outside {
    /// The day of the last check. Raise it when every address in ``known`` has been checked, whether it has changed or
    /// not.
    static let lookedAt = "2026-11-22"
    /// The number of days after which a check is old.
    static let daysUntilOld = 60

    /// Names, versions, and the addresses at which newer versions are published.
    static let known: [(name: String, version: String, address: String)] = [
        ("wire format", WireFormat.version, "https://github.com/openai/codex/releases"),
        ("models", "", "https://developers.openai.com/codex/models"),
        ("MCP revision", ChappieMCPServer.revision, "https://modelcontextprotocol.io/specification/versioning"),
    ]

    /// Returns the number of complete days since the last check.
    static func age(at now: Date) -> Int {
        let day = try? Date(lookedAt, strategy: .iso8601.year().month().day())
        return day.map { Int(now.timeIntervalSince($0) / 86_400) } ?? 0
    }
}
