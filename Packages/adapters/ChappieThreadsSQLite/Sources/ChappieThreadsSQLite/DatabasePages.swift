@_spi(ChappieInternals) import ChappieFiles
import SystemPackage

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// The pages of an SQLite database and of its write-ahead log, read without SQLite
/// (https://www.sqlite.org/fileformat2.html). A damaged page, header or tree costs only its own rows.
struct DatabasePages {
    /// The size of a page in bytes. It is the size with which a store makes its database.
    static let size = 4096

    private let file: Descriptor
    private let log: Descriptor?
    /// The places of newer pages in the log, by the number of the page.
    private var newer: [Int: Int] = [:]
    /// The number of pages.
    private let count: Int

    /// Opens the database at `path`.
    init(_ path: String) throws(Errno) {
        file = try Descriptor(path, .readOnly, [.noFollow, .nonBlocking])
        log = try? Descriptor(path + "-wal", .readOnly, [.noFollow, .nonBlocking])
        let pages = Int(try file.status().st_size) / Self.size
        if let log { newer = try Self.newerPages(in: log) }
        // A damaged log must not lead to more pages than there are.
        count = min(max(pages, newer.keys.max() ?? 0), pages + newer.count)
    }

    /// Finds the last committed form of each page in a log. A frame with another salt belongs to an earlier log.
    private static func newerPages(in log: Descriptor) throws(Errno) -> [Int: Int] {
        let header = try log.read(32, at: 0)
        guard header.count == 32 else { return [:] }
        var committed: [Int: Int] = [:]
        var pending: [Int: Int] = [:]
        var place = 32
        while true {
            let frame = try log.read(24, at: place)
            guard frame.count == 24, frame[8..<16] == header[16..<24] else { return committed }
            pending[frame.number(at: 0)] = place + 24
            // The last frame of a transaction has the size of the database.
            if frame.number(at: 4) > 0 {
                committed.merge(pending) { _, last in last }
                pending = [:]
            }
            place += 24 + size
        }
    }

    private func page(_ number: Int) -> [UInt8]? {
        var bytes: [UInt8]?
        if let log, let place = newer[number] { bytes = try? log.read(Self.size, at: place) }
        bytes = bytes ?? (try? file.read(Self.size, at: (number - 1) * Self.size))
        return bytes?.count == Self.size ? bytes : nil
    }

    // MARK: Rows

    /// A value of a row.
    enum Value {
        case null
        case integer(Int)
        case text(String)
        case bytes([UInt8])
    }

    /// A row of a table or an index.
    struct Row {
        /// The row's number in its table, or `nil` in an index.
        let number: Int?
        let values: [Value]
    }

    /// Calls `body` with each row that can be read, in the order of the pages.
    func eachRow<Failure>(_ body: (Row) throws(Failure) -> Void) throws(Failure) {
        let free = freePages()
        for number in 1...max(count, 1) where !free.contains(number) {
            guard let page = page(number) else { continue }
            // The database's header precedes the first page's own.
            let start = number == 1 ? 100 : 0
            let isTable = page[start] == 13
            guard isTable || page[start] == 10 || page[start] == 2 else { continue }
            let cells = page.shortNumber(at: start + 3)
            let pointers = start + (page[start] == 2 ? 12 : 8)
            for cell in 0..<cells where pointers + 2 * cell + 2 <= Self.size {
                // An inner page of an index has rows, too, after the number of another page.
                let place = page.shortNumber(at: pointers + 2 * cell) + (page[start] == 2 ? 4 : 0)
                if let row = row(at: place, in: page, isTable) { try body(row) }
            }
        }
    }

    /// Returns the pages that are free. They may still contain deleted rows. A damaged list is ignored.
    private func freePages() -> Set<Int> {
        var free: Set<Int> = []
        guard let header = page(1) else { return free }
        var next = header.number(at: 32)
        while next > 0, free.insert(next).inserted, let trunk = page(next) {
            for leaf in 0..<min(trunk.number(at: 4), Self.size / 4 - 2) { free.insert(trunk.number(at: 8 + 4 * leaf)) }
            next = trunk.number(at: 0)
        }
        return free.count == header.number(at: 36) ? free : []
    }

    private func row(at start: Int, in page: [UInt8], _ isTable: Bool) -> Row? {
        var place = start
        guard let length = page.variableNumber(at: &place), length >= 0, length / Self.size <= count else { return nil }
        var number: Int?
        if isTable {
            number = page.variableNumber(at: &place)
            if number == nil { return nil }
        }
        guard let payload = payload(length, at: place, in: page, isTable) else { return nil }
        return Self.values(in: payload).map { Row(number: number, values: $0) }
    }

    /// Returns the bytes of a row. What does not fit into its page is in a chain of other pages.
    private func payload(_ length: Int, at place: Int, in page: [UInt8], _ isTable: Bool) -> [UInt8]? {
        let most = isTable ? Self.size - 35 : (Self.size - 12) * 64 / 255 - 23
        let least = (Self.size - 12) * 32 / 255 - 23
        let fitting = least + (length - least) % (Self.size - 4)
        let local = length <= most ? length : fitting <= most ? fitting : least
        guard place + local <= Self.size else { return nil }
        var bytes = Array(page[place..<place + local])
        guard bytes.count < length else { return bytes }
        guard place + local + 4 <= Self.size else { return nil }
        var next = page.number(at: place + local)
        while bytes.count < length {
            guard next > 0, next <= count, let more = self.page(next) else { return nil }
            bytes += more[4...].prefix(length - bytes.count)
            next = more.number(at: 0)
        }
        return bytes
    }

    private static func values(in payload: [UInt8]) -> [Value]? {
        var place = 0
        guard let end = payload.variableNumber(at: &place), end <= payload.count else { return nil }
        var content = end
        var values: [Value] = []
        while place < end {
            guard let type = payload.variableNumber(at: &place), type >= 0 else { return nil }
            let sizes = [0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0]
            let size = type < 12 ? sizes[type] : (type - 12) / 2
            guard size <= payload.count - content else { return nil }
            let bytes = payload[content..<content + size]
            content += size
            switch type {
            case 0: values.append(.null)
            case 8, 9: values.append(.integer(type - 8))
            case 1...6:
                let sign = bytes.first.map { $0 < 0x80 ? 0 : -1 } ?? 0
                values.append(.integer(bytes.reduce(sign) { $0 << 8 | Int($1) }))
            case 12... where type % 2 == 0: values.append(.bytes(Array(bytes)))
            case 13...: values.append(.text(String(decoding: bytes, as: UTF8.self)))
            default: return nil
            }
        }
        return values
    }
}

extension [UInt8] {
    fileprivate func shortNumber(at place: Int) -> Int { Int(self[place]) << 8 | Int(self[place + 1]) }

    fileprivate func number(at place: Int) -> Int { self[place..<place + 4].reduce(0) { $0 << 8 | Int($1) } }

    /// Reads a number of one to nine bytes, and moves `place` behind it.
    fileprivate func variableNumber(at place: inout Int) -> Int? {
        var number = 0
        for index in 0..<9 {
            guard place < count else { return nil }
            let byte = self[place]
            place += 1
            if index == 8 { return number << 8 | Int(byte) }
            number = number << 7 | Int(byte & 0x7F)
            if byte < 0x80 { return number }
        }
        return nil
    }
}

extension Descriptor {
    /// Reads at most `length` bytes from `place` on. Returns fewer only at the end of the file.
    fileprivate func read(_ length: Int, at place: Int) throws(Errno) -> [UInt8] {
        do {
            return try [UInt8](unsafeUninitializedCapacity: length) { buffer, count in
                while count < length {
                    let rest = UnsafeMutableRawBufferPointer(rebasing: UnsafeMutableRawBufferPointer(buffer)[count...])
                    let read = try FileDescriptor(rawValue: number).read(
                        fromAbsoluteOffset: Int64(place + count), into: rest)
                    if read == 0 { return }
                    count += read
                }
            }
        } catch {
            throw error as? Errno ?? .ioError
        }
    }
}
