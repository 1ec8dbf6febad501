@_spi(ChappieInternals) import ChappieCore
import Testing

/// A JSON value written as text; a text that is not JSON fails the test that uses it.
func json(_ text: String) -> ChappieJSON {
    do {
        return try ChappieJSON(parsing: text)
    } catch {
        Issue.record(error, "\(text)")
        return .null
    }
}
