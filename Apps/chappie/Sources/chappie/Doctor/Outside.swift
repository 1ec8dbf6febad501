@_spi(ChappieInternals) import ChappieClient
@_spi(ChappieInternals) import ChappieMCP
import FoundationEssentials

/// The program's knowledge of services and formats that change without it, and its date.
///
/// `Scripts/check` reads this file as well (`Scripts/lib/outside.py`), line by line: it reports that when the last look
/// is long ago.
enum Outside {
    /// The day of the last look. Raise it after every address in ``known`` has been looked at, whatever has changed.
    static let lookedAt = "2026-11-22"
    /// After so many days a look is old.
    static let daysUntilOld = 60

    /// Names, versions, and the addresses of newer ones.
    static let known: [(name: String, version: String, address: String)] = [
        ("wire format", WireFormat.version, "https://github.com/openai/codex/releases"),
        ("models", "", "https://developers.openai.com/codex/models"),
        ("MCP revision", ChappieMCPServer.revision, "https://modelcontextprotocol.io/specification/versioning"),
    ]

    /// Whole days since the last look.
    static func age(at now: Date) -> Int {
        let day = try? Date(lookedAt, strategy: .iso8601.year().month().day())
        return day.map { Int(now.timeIntervalSince($0) / 86_400) } ?? 0
    }
}
