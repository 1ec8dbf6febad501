@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) public import ChappieRuntime
import ChappieSQLite

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// The hits of a search, and the problems with the records that could not be read.
public struct ChappieReadableHits: Sendable {
    /// The hits, sorted from the best to the worst.
    public internal(set) var hits: [ChappieThreadHit] = []
    /// The damage on the way to the hits. Each problem names its thread if it is known.
    public internal(set) var problems: [ChappieThreadStoreError] = []
}

extension ThreadDatabase {
    /// Returns a text in the form of the index, as single words. They are in order, each between line feeds. A NUL
    /// character is at the end. Words, beginnings and phrases are found by a search for bytes.
    static func words(of text: String) -> [UInt8] { indexed(ChappieThreadWords(text).words) + [0x0A, 0] }

    /// Returns words with a line feed before each of them.
    private static func indexed(_ words: [String]) -> [UInt8] { words.flatMap { [0x0A] + Array($0.utf8) } }

    /// Returns the sealed words of a text.
    func words(of text: String, as id: Int, _ key: Int, _ protection: ThreadProtection) throws(StoreError) -> [UInt8] {
        try protection.seal(Self.words(of: text), with: key, for: .words(database: facts.id, record: id))
    }

    func insertWords(_ sealed: [UInt8], of id: Int, _ key: Int) throws(StoreError) {
        try database.run(
            "INSERT OR REPLACE INTO record_words VALUES (?, ?, ?)", .integer(id), .integer(key), .bytes(sealed))
    }

    /// Removes records from the search index, because they were taken back.
    func deleteWords(of ids: [Int]) throws(StoreError) {
        for id in ids { try database.run("DELETE FROM record_words WHERE id = ?", .integer(id)) }
    }

    /// Searches the records. Of the records whose words match, those with the fewest words come before the others, and
    /// of these the newest. The search skips damaged records and reports them.
    func search(_ query: ChappieThreadQuery, _ protection: ThreadProtection) throws(StoreError) -> ChappieReadableHits {
        let words = ChappieThreadWords(query: query.text)
        var found = ChappieReadableHits()
        guard query.limit > 0, !words.words.isEmpty else { return found }
        return try database.snapshot { () throws(StoreError) in
            try currentKey(protection)
            found.problems = damage.map { [$0] } ?? []
            // The threads that were examined. The value is `nil` for a thread that already has a hit, is excluded by
            // the query or has a damaged entry.
            var threads: [Int: ChappieThreadSummary?] = [:]
            // Only sizes and ids are kept. Bodies are read one by one until there are enough hits.
            for id in try candidates(words, since: query.since, protection) {
                let number = id >> 32
                do throws(StoreError) {
                    if threads[number] == nil {
                        threads.updateValue(nil, forKey: number)
                        threads.updateValue(try candidate(number, for: query, protection), forKey: number)
                    }
                    guard case .some(.some(let thread)) = threads[number] else { continue }
                    guard let record = try record(id, of: thread.id, protection) else {
                        throw .damaged(thread: thread.id, "the search leads to a record that is not there")
                    }
                    guard let text = record.searchableText, words.occur(in: text) else { continue }
                    found.hits.append(ChappieThreadHit(record, of: thread, words))
                    threads.updateValue(nil, forKey: number)
                    if found.hits.count == query.limit { break }
                } catch {
                    guard case .damaged = error else { throw error }
                    found.problems.append(error)
                }
            }
            return found
        }
    }

    /// Returns the ids of the records that have all of the words, with the best at the start. They include a record whose
    /// words were changed, because its text decides.
    private func candidates(
        _ words: ChappieThreadWords, since start: Date?, _ protection: ThreadProtection
    ) throws(StoreError) -> [Int] {
        var sought = words.words.enumerated().map { index, word in
            let isBeginning = words.endsWithBeginning && index == words.words.count - 1
            return Self.indexed([word]) + (isBeginning ? [0] : [0x0A, 0])
        }
        sought += words.phrases.map { Self.indexed($0) + [0x0A, 0] }
        var rows = "SELECT id, key, body FROM record_words"
        var values: [SQLiteValue] = []
        if let start {
            rows += " AS words WHERE (SELECT date FROM records WHERE records.id = words.id) >= ?"
            values = [.integer(Int(exactly: (start.timeIntervalSince1970 * 1000).rounded(.down)) ?? .min)]
        }
        var found: [(size: Int, id: Int)] = []
        try database.each(rows, values) { row throws(StoreError) in
            let id = row.integer(0)
            let list = try protection.open(
                row.bytes(2), with: row.integer(1), for: .words(database: facts.id, record: id))
            if list.map({ list in sought.allSatisfy { list.hasString($0) } }) ?? true {
                found.append((list?.count ?? .max, id))
            }
            return true
        }
        return found.sorted { $0.size == $1.size ? $0.id > $1.id : $0.size < $1.size }.map(\.id)
    }

    private func candidate(
        _ number: Int, for query: ChappieThreadQuery, _ protection: ThreadProtection
    ) throws(StoreError) -> ChappieThreadSummary? {
        guard let entry = try entry(numbered: number) else {
            throw .damaged(thread: nil, "the search leads to a thread that is not there")
        }
        let thread = try checkedSummary(in: entry, protection)
        return query.concerns(thread) ? thread : nil
    }
}

extension [UInt8] {
    /// Returns whether a string occurs in this one. Both end with a NUL character.
    fileprivate func hasString(_ part: [UInt8]) -> Bool {
        guard last == 0, part.last == 0 else { return false }
        return withUnsafeBytes { all in
            part.withUnsafeBytes { part in
                guard let text = all.assumingMemoryBound(to: CChar.self).baseAddress,
                    let sought = part.assumingMemoryBound(to: CChar.self).baseAddress
                else { return false }
                return strstr(text, sought) != nil
            }
        }
    }
}
