import ChappieCore
import ChappieRuntime
import ChappieTesting
import Testing

struct ThreadStoreTests {
    @Test(arguments: ThreadStoreContract.cases)
    func theStoreInMemoryKeepsTheContract(_ contractCase: ThreadStoreContract.Case) async throws {
        try await contractCase.run(ChappieInMemoryThreadStore())
    }

    @Test(arguments: ThreadStoreContract.cases)
    func `a redacting store that removes nothing keeps the contract`(_ contractCase: ThreadStoreContract.Case)
        async throws
    {
        try await contractCase.run(ChappieRedactingThreadStore(wrapping: ChappieInMemoryThreadStore()) { $0 })
    }

    /// The text and the words that find it, then the words that don't.
    @Test(
        arguments: [
            ("Die Straße am Fluß", ["strasse", "STRASSE", "fluss", "straß"], ["stras se"]),
            ("łódź, œuvre, Ærø, đồng, ısı, þing", ["lodz", "oeuvre", "aero", "dong", "isi", "thing"], []),
            ("the ﬁrst ﬂow", ["first", "flow"], []), ("ＡＢＣ １２", ["abc", "12"], []),
            ("written in C++ and C#.", ["c++", "C#", "\"c#\""], ["\"c\"", "c+++ d"]),
            ("cat, a+b", ["a", "b"], ["c++", "c#"]),
            ("release v1.2.3", ["1.2.3", "v1.2.3", "\"1.2.3\""], ["\"2.1\""]),
            ("plain cafe\u{301}s and e\u{301}t ж++\r\nend", ["cafes", "et", "\"plain cafes and\"", "ж++"], ["cafe s"]),
            ("fine 👍🏽 and ❤️ → 5 €", ["👍", "❤", "❤️", "→", "€"], ["👎"]), ("│ a │", ["a"], ["│"]),
        ] as [(String, [String], [String])])
    func `common spellings find a text`(_ text: String, _ found: [String], _ missed: [String]) {
        for query in found { #expect(ChappieThreadWords(query: query).occur(in: text), "\(query)") }
        for query in missed { #expect(!ChappieThreadWords(query: query).occur(in: text), "\(query)") }
    }
}
