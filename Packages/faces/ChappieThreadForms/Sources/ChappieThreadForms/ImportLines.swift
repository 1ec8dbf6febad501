@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles

/// The JSON lines of a file, or of bytes, one after the other.
struct ImportLines {
    private enum Source {
        case file(FileLines)
        case bytes(ArraySlice<UInt8>)
    }

    private var source: Source
    private var number = 0
    /// A first line that is not JSON by itself.
    private var first: [UInt8] = []
    private var isAtStart = true
    /// Whether lines that are not JSON objects are counted and left out. Otherwise they are errors.
    var leavesOutDamage = false
    /// The number of lines that were left out.
    private(set) var damagedCount = 0
    /// The number of an incomplete last line, whose program ended while it wrote the line.
    private(set) var tornLine: Int?

    init(_ file: FileLines) { source = .file(file) }

    init(_ bytes: [UInt8]) { source = .bytes(bytes[...]) }

    /// Returns the first character that is not blank, or `nil` if there is none near the start.
    func firstCharacter() throws(ThreadFault) -> Character? {
        let start: [UInt8] =
            switch source {
            case .file(let file): try ThreadFault.reading { () throws(WholeFile.Failure) in try file.start(1024) }
            case .bytes(let bytes): Array(bytes.prefix(1024))
            }
        return Self.withoutMark(start).first { !Self.isBlank($0) }.map { Character(Unicode.Scalar($0)) }
    }

    /// Returns the next line that is not blank. It returns `nil` at the end, for an incomplete line at the end, and for
    /// a first line that is only a part of a document.
    mutating func next() throws(ThreadFault) -> (line: Int, json: ChappieJSON)? {
        while let (bytes, isWhole) = try nextBytes() {
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
        while let (bytes, _) = try nextBytes() {
            if !all.isEmpty { all.append(UInt8(ascii: "\n")) }
            all += bytes
        }
        return all
    }

    /// Returns the next bytes without regard to lines, or `nil` at the end.
    mutating func nextPiece() throws(ThreadFault) -> [UInt8]? {
        let piece: [UInt8]
        switch source {
        case .file(let file):
            piece = try ThreadFault.reading { () throws(WholeFile.Failure) in try file.nextPiece() }
        case .bytes(let bytes):
            piece = Array(bytes)
            source = .bytes([])
        }
        defer { isAtStart = false }
        guard !piece.isEmpty else { return nil }
        return isAtStart ? Self.withoutMark(piece) : piece
    }

    private mutating func nextBytes() throws(ThreadFault) -> (bytes: [UInt8], isWhole: Bool)? {
        defer { isAtStart = false }
        guard let line = try nextLine() else { return nil }
        return isAtStart ? (Self.withoutMark(line.bytes), line.isWhole) : line
    }

    /// Returns the bytes without a byte order mark, which some programs write at the start of a file.
    private static func withoutMark(_ bytes: [UInt8]) -> [UInt8] {
        bytes.starts(with: [0xEF, 0xBB, 0xBF]) ? Array(bytes.dropFirst(3)) : bytes
    }

    private mutating func nextLine() throws(ThreadFault) -> (bytes: [UInt8], isWhole: Bool)? {
        switch source {
        case .file(let file): return try ThreadFault.reading { () throws(WholeFile.Failure) in try file.next() }
        case .bytes(let bytes):
            guard !bytes.isEmpty else { return nil }
            let line = bytes.prefix { $0 != UInt8(ascii: "\n") }
            source = .bytes(bytes[line.endIndex...].dropFirst())
            return (Array(line), line.endIndex < bytes.endIndex)
        }
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
