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
    /// The bytes of the lines before the first object.
    private var skipped: [UInt8] = []
    /// The number of lines that are not JSON objects.
    private(set) var damagedCount = 0
    /// Whether the last line is incomplete, because its program ended while it wrote the line.
    private(set) var isTorn = false
    /// The reason why the rest of the file cannot be read.
    private(set) var failure: ThreadFault?
    /// The maximum length of a line, and of an element of an array. A hostile file could otherwise use any memory.
    static let lengthLimit = 256 << 20

    /// Begins to read. A byte order mark, which some programs write at the start of a file, is left out.
    init(_ bytes: [UInt8] = [], _ pieces: @escaping Pieces = { () throws(ThreadFault) in [] }) throws(ThreadFault) {
        self.pieces = pieces
        buffer = bytes
        while buffer.count < 3, readMore() {}
        if buffer.isEmpty, let failure { throw failure }
        if buffer.starts(with: [0xEF, 0xBB, 0xBF]) { start = 3 }
    }

    /// Returns the first character that is not blank, or `nil` if there is none near the start.
    mutating func firstCharacter() -> Character? {
        while buffer.count < 1024, readMore() {}
        return buffer[start...].prefix(1024).first { !Self.isBlank($0) }.map { Character(Unicode.Scalar($0)) }
    }

    /// Returns the object in the first line, or in the second line if the first one is damaged. It returns `nil` for
    /// another file, which may be one document, and ``rest()`` then returns all its bytes.
    mutating func first() -> ChappieJSON? {
        for _ in 0..<2 {
            guard let (bytes, _) = nextLine() else { break }
            if let object = Self.object(bytes) { return object }
            skipped += bytes + [UInt8(ascii: "\n")]
            if !bytes.allSatisfy(Self.isBlank) { damagedCount += 1 }
        }
        return nil
    }

    /// Returns the object in the next line, or `nil` at the end. Other lines are left out and counted, and so is the
    /// rest of a file that cannot be read any further.
    mutating func next() -> ChappieJSON? {
        while let (bytes, isComplete) = nextLine() {
            if let object = Self.object(bytes) { return object }
            if bytes.allSatisfy(Self.isBlank) { continue }
            if isComplete { damagedCount += 1 } else { isTorn = true }
        }
        return nil
    }

    private static func object(_ bytes: [UInt8]) -> ChappieJSON? {
        (try? ChappieJSON(parsing: bytes)).flatMap { $0.object == nil ? nil : $0 }
    }

    /// Returns all bytes that were not returned as lines.
    mutating func rest() throws(ThreadFault) -> [UInt8] {
        var all = skipped
        while let piece = try nextPiece() { all += piece }
        return all
    }

    /// Returns the next bytes without regard to lines, or `nil` at the end.
    mutating func nextPiece() throws(ThreadFault) -> [UInt8]? {
        if start == buffer.count, !readMore(), let failure { throw failure }
        defer { start = buffer.count }
        return start == buffer.count ? nil : Array(buffer[start...])
    }

    /// Returns the next line without its line feed, and whether it has one.
    private mutating func nextLine() -> (bytes: [UInt8], isComplete: Bool)? {
        var searched = 0
        while true {
            if let end = buffer[(start + searched)...].firstIndex(of: UInt8(ascii: "\n")) {
                defer { start = end + 1 }
                return (Array(buffer[start..<end]), true)
            }
            searched = buffer.count - start
            guard searched <= Self.lengthLimit else {
                end(ThreadFault("one of its lines is larger than \(Self.lengthLimit >> 20) MiB"))
                return nil
            }
            guard readMore() else { break }
        }
        defer { start = buffer.count }
        return searched == 0 ? nil : (Array(buffer[start...]), false)
    }

    private mutating func readMore() -> Bool {
        guard !hasEnded else { return false }
        let piece: [UInt8]
        do throws(ThreadFault) {
            piece = try pieces()
        } catch {
            end(error)
            return false
        }
        hasEnded = piece.isEmpty
        byteCount += piece.count
        // A compressed file may have any number of bytes.
        guard byteCount <= ChappieThreadImport.byteLimit else {
            end(ThreadFault("it is larger than \(ChappieThreadImport.byteLimit >> 30) GiB", .unreadable))
            return false
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

    /// Leaves out the rest of the file.
    private mutating func end(_ fault: ThreadFault) {
        failure = fault
        hasEnded = true
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
            guard element.count <= ImportLines.lengthLimit else {
                throw ThreadFault("one of its elements is larger than \(ImportLines.lengthLimit >> 20) MiB")
            }
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
