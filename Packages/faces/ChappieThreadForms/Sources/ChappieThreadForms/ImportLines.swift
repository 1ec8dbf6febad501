@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles

/// The JSON lines of a file, or of bytes, one after the other.
struct ImportLines {
    /// Returns the next bytes, which are empty at the end.
    typealias Pieces = () throws(ThreadFault) -> [UInt8]

    private let pieces: Pieces
    /// The bytes that were read. Those from `start` on have not been returned yet.
    private var buffer: [UInt8]
    private var start = 0
    private var hasEnded = false
    private var byteCount = 0
    private var number = 0
    /// A first line that is not JSON by itself.
    private var first: [UInt8] = []
    /// Whether lines that are not JSON objects are counted and left out. Otherwise they are errors.
    var leavesOutDamage = false
    /// The number of lines that were left out.
    private(set) var damagedCount = 0
    /// The number of an incomplete last line, whose program ended while it wrote the line.
    private(set) var tornLine: Int?

    /// Begins to read. A byte order mark, which some programs write at the start of a file, is left out.
    init(_ bytes: [UInt8] = [], _ pieces: @escaping Pieces = { () throws(ThreadFault) in [] }) throws(ThreadFault) {
        self.pieces = pieces
        buffer = bytes
        while buffer.count < 3, try readMore() {}
        if buffer.starts(with: [0xEF, 0xBB, 0xBF]) { start = 3 }
    }

    /// Returns the first character that is not blank, or `nil` if there is none near the start.
    mutating func firstCharacter() throws(ThreadFault) -> Character? {
        while buffer.count < 1024, try readMore() {}
        return buffer[start...].prefix(1024).first { !Self.isBlank($0) }.map { Character(Unicode.Scalar($0)) }
    }

    /// Returns the next line that is not blank. It returns `nil` at the end, for an incomplete line at the end, and for
    /// a first line that is only a part of a document.
    mutating func next() throws(ThreadFault) -> (line: Int, json: ChappieJSON)? {
        while let (bytes, isWhole) = try nextLine() {
            number += 1
            if bytes.allSatisfy(Self.isBlank) { continue }
            if let json = try? ChappieJSON(parsing: bytes), json.object != nil { return (number, json) }
            if number == 1 {
                first = bytes
                return nil
            }
            guard isWhole else {
                tornLine = number
                return nil
            }
            guard leavesOutDamage else { throw .line(number, "it is not a JSON object") }
            damagedCount += 1
        }
        return nil
    }

    /// Returns all bytes that ``next()`` has not returned as lines.
    mutating func rest() throws(ThreadFault) -> [UInt8] {
        var all = first
        if !all.isEmpty { all.append(UInt8(ascii: "\n")) }
        while let piece = try nextPiece() { all += piece }
        return all
    }

    /// Returns the next bytes without regard to lines, or `nil` at the end.
    mutating func nextPiece() throws(ThreadFault) -> [UInt8]? {
        if start == buffer.count { _ = try readMore() }
        defer { start = buffer.count }
        return start == buffer.count ? nil : Array(buffer[start...])
    }

    /// Returns the next line without its line feed, and whether it has one.
    private mutating func nextLine() throws(ThreadFault) -> (bytes: [UInt8], isWhole: Bool)? {
        var searched = 0
        while true {
            if let end = buffer[(start + searched)...].firstIndex(of: UInt8(ascii: "\n")) {
                defer { start = end + 1 }
                return (Array(buffer[start..<end]), true)
            }
            searched = buffer.count - start
            guard try readMore() else { break }
        }
        defer { start = buffer.count }
        return searched == 0 ? nil : (Array(buffer[start...]), false)
    }

    private mutating func readMore() throws(ThreadFault) -> Bool {
        guard !hasEnded else { return false }
        let piece = try pieces()
        hasEnded = piece.isEmpty
        byteCount += piece.count
        // A compressed file may have any number of bytes.
        guard byteCount <= ChappieThreadImport.byteLimit else {
            throw ThreadFault("it is over \(ChappieThreadImport.byteLimit >> 30) GiB.", .unreadable)
        }
        // The memory depends on the length of a line, not of the file. Each removal takes more than half, so that a
        // byte moves once on average.
        if start > buffer.count / 2 {
            buffer.removeFirst(start)
            start = 0
        }
        buffer += piece
        return !hasEnded
    }

    static func isBlank(_ byte: UInt8) -> Bool { [0x20, 0x09, 0x0A, 0x0D].contains(byte) }
}

/// The elements of a JSON array, one after the other. The memory depends on the largest element, and not on the file.
struct JSONElements {
    private var lines: ImportLines
    private var piece: [UInt8] = []
    private var index = 0
    private var depth = 0
    private var isText = false
    private var isEscaped = false

    init(_ lines: ImportLines) { self.lines = lines }

    /// Returns the next element, or `nil` at the end. An array that is cut has a part of an element at its end.
    mutating func next() throws(ThreadFault) -> [UInt8]? {
        var element: [UInt8] = []
        while true {
            if index == piece.count {
                guard let more = try lines.nextPiece() else { break }
                piece = more
                index = 0
            }
            let start = index
            while index < piece.count, !isSeparator(piece[index]) { index += 1 }
            element += piece[start..<index]
            guard index < piece.count else { continue }
            index += 1
            if !element.allSatisfy(ImportLines.isBlank) { return element }
            element = []
        }
        return element.allSatisfy(ImportLines.isBlank) ? nil : element
    }

    /// Returns whether the byte separates two elements, or begins or ends the array.
    private mutating func isSeparator(_ byte: UInt8) -> Bool {
        if isText {
            if isEscaped {
                isEscaped = false
            } else if byte == UInt8(ascii: "\\") {
                isEscaped = true
            } else if byte == UInt8(ascii: "\"") {
                isText = false
            }
            return false
        }
        switch byte {
        case UInt8(ascii: "\""): isText = true
        case UInt8(ascii: ","): return depth == 1
        case UInt8(ascii: "["), UInt8(ascii: "{"):
            depth += 1
            return depth == 1
        case UInt8(ascii: "]"), UInt8(ascii: "}"):
            depth -= 1
            return depth == 0
        default: break
        }
        return false
    }
}
