@_spi(ChappieInternals) public import ChappieRuntime
import ChappieSQLite

/// The hits of a search, and the problems with the records that could not be read.
public struct ChappieReadableHits: Sendable {
    /// The hits, sorted from the best to the worst.
    public internal(set) var hits: [ChappieThreadHit] = []
    /// The damage on the way to the hits. Each problem names its thread if it is known.
    public internal(set) var problems: [ChappieThreadStoreError] = []
}

/// The words of a text as the index stores them, each once and in the order of their bytes. An encoded word consists of
/// the number of bytes that it shares with the previous word (four bits), the number of its other bytes (four bits, and
/// another byte from 15 on), and the other bytes. A list takes 0.4 to 0.6 of the text's size.
struct ThreadWordList {
    let bytes: [UInt8]

    init(of text: String) {
        let words = Set(ChappieThreadWords(text).words).map { Array($0.utf8) }
        var bytes: [UInt8] = []
        var last: [UInt8] = []
        for word in words.sorted(by: { $0.lexicographicallyPrecedes($1) }) {
            let common = min(zip(word, last).prefix { $0 == $1 }.count, 15)
            let rest = word.count - common
            bytes.append(UInt8(common << 4 | min(rest, 15)))
            if rest >= 15 { bytes.append(UInt8(truncatingIfNeeded: rest)) }
            bytes += word[common...]
            last = word
        }
        self.bytes = bytes
    }

    /// Returns whether the list in `bytes` has this word, or a word with this beginning.
    static func has(_ word: [UInt8], asBeginning: Bool, in bytes: [UInt8]) -> Bool {
        bytes.withUnsafeBufferPointer { bytes in
            word.withUnsafeBufferPointer { word in has(word, asBeginning, bytes) }
        }
    }

    private static func has(
        _ word: UnsafeBufferPointer<UInt8>, _ asBeginning: Bool, _ bytes: UnsafeBufferPointer<UInt8>
    ) -> Bool {
        var place = 0
        // The number of the word's bytes that the last entry begins with. All entries so far come before the word.
        var same = 0
        while place < bytes.count {
            let common = Int(bytes[place] >> 4)
            var rest = Int(bytes[place] & 15)
            place += 1
            if rest == 15, place < bytes.count {
                rest = Int(bytes[place])
                place += 1
            }
            let end = min(place + rest, bytes.count)
            // An entry that shares more bytes with the previous entry than the word does also comes before the word.
            if common <= same {
                same = common
                while same < word.count, place + same - common < end, bytes[place + same - common] == word[same] {
                    same += 1
                }
                let isAtEnd = place + same - common == end
                if same == word.count { return asBeginning || isAtEnd }
                if !isAtEnd, bytes[place + same - common] > word[same] { return false }
            }
            place = end
        }
        return false
    }
}

extension ThreadDatabase {
    /// Returns the sealed words of a text.
    func words(of text: String, as id: Int, _ key: Int, _ protection: ThreadProtection) throws(StoreError) -> [UInt8] {
        try protection.seal(ThreadWordList(of: text).bytes, with: key, for: .words(database: facts.id, record: id))
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
            _ = try state(protection)
            // The threads that were examined. The value is `nil` for a thread that already has a hit, is excluded by
            // the query or has a damaged entry.
            var threads: [Int: ChappieThreadSummary?] = [:]
            // Only sizes and ids are kept. Bodies are read one by one until there are enough hits.
            for id in try candidates(words, protection) {
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
                    guard let text = record.searchableText, words.occur(in: text),
                        record.date >= query.since ?? record.date
                    else { continue }
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
    private func candidates(_ words: ChappieThreadWords, _ protection: ThreadProtection) throws(StoreError) -> [Int] {
        let sought = words.words.map { Array($0.utf8) }
        var found: [(size: Int, id: Int)] = []
        try database.each("SELECT id, key, body FROM record_words") { row throws(StoreError) in
            let id = row.integer(0)
            let list = try protection.open(
                row.bytes(2), with: row.integer(1), for: .words(database: facts.id, record: id))
            let fits =
                list.map { list in
                    sought.indices.allSatisfy { index in
                        let asBeginning = words.endsWithBeginning && index == sought.count - 1
                        return ThreadWordList.has(sought[index], asBeginning: asBeginning, in: list)
                    }
                } ?? true
            if fits { found.append((list?.count ?? .max, id)) }
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
