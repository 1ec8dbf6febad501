/// The moments at which somebody wants to be called, the earliest first.
///
/// An entry can't be moved or taken back: who has another moment by now says so when the old one comes. So a deadline that
/// is put off a thousand times costs one entry.
struct DeadlineQueue {
    struct Entry: Equatable {
        let moment: Duration
        let id: Int
    }

    /// A binary heap: no entry is later than those at 2i + 1 and 2i + 2.
    private var entries: [Entry] = []

    var earliest: Duration? { entries.first?.moment }
    var count: Int { entries.count }

    mutating func add(_ moment: Duration, for id: Int) {
        entries.append(Entry(moment: moment, id: id))
        var index = entries.count - 1
        while index > 0, entries[index].moment < entries[(index - 1) / 2].moment {
            entries.swapAt(index, (index - 1) / 2)
            index = (index - 1) / 2
        }
    }

    /// The next entry whose moment is not after `now`, taken out.
    mutating func popFirst(dueAt now: Duration) -> Entry? {
        guard let first = entries.first, first.moment <= now else { return nil }
        entries.swapAt(0, entries.count - 1)
        entries.removeLast()
        var index = 0
        while true {
            let children = (2 * index + 1)..<min(2 * index + 3, max(entries.count, 2 * index + 1))
            guard let child = children.min(by: { entries[$0].moment < entries[$1].moment }),
                entries[child].moment < entries[index].moment
            else { return first }
            entries.swapAt(index, child)
            index = child
        }
    }
}
