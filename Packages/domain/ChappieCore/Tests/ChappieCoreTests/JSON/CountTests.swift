import ChappieCore
import Testing

@Suite struct CountTests {
    @Test func `a text with more values than anyone needs is refused`() throws {
        let error = try #require(throws: ChappieJSONError.self) {
            try ChappieJSON(parsing: Array(("[[" + String(repeating: "0,", count: 3_999_999) + "0]]").utf8))
        }
        #expect(error.reason.contains("4000000"))
    }
}
