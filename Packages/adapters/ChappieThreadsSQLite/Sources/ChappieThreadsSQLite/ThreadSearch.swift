@_spi(ChappieInternals) import ChappieRuntime
@_spi(ChappieInternals) import ChappieSQLite

extension ThreadDatabase {
    func index(_ text: String, as id: Int, _ key: Int, _ protection: ThreadProtection) throws(StoreError) {
        let terms = try protection.terms(of: text, with: key)
        try database.run(
            "INSERT INTO search (rowid, words, beginnings) VALUES (?, ?, ?)", .integer(id), .text(terms.words),
            .text(terms.beginnings))
    }

    func search(_ query: ChappieThreadQuery, _ protection: ThreadProtection) throws(StoreError) -> [ChappieThreadHit] {
        let words = ChappieThreadWords(query: query.text)
        guard query.limit > 0, let match = try protection.query(words.words) else { return [] }
        return try database.snapshot { () throws(StoreError) in
            _ = try state(protection)
            var hits: [ChappieThreadHit] = []
            // The threads that were looked at; `nil` for a thread that gave a hit already, or is excluded by the query.
            var threads: [Int: ChappieThreadSummary?] = [:]
            // Only ids are sorted: bodies are read one by one until there are enough hits.
            try database.each(
                "SELECT rowid FROM search WHERE search MATCH ? ORDER BY rank, rowid DESC", [.text(match)]
            ) { row throws(StoreError) in
                let (id, number) = (row.integer(0), row.integer(0) >> 32)
                if threads[number] == nil {
                    threads.updateValue(try candidate(number, for: query, protection), forKey: number)
                }
                guard case .some(.some(let thread)) = threads[number] else { return true }
                guard let record = try record(id, of: thread.id, protection) else {
                    throw .damaged(thread: thread.id, "the search leads to a record that is not there")
                }
                guard let text = record.searchableText, words.occur(in: text), record.date >= query.since ?? record.date
                else { return true }
                hits.append(ChappieThreadHit(record, of: thread, words))
                threads.updateValue(nil, forKey: number)
                return hits.count < query.limit
            }
            return hits
        }
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
