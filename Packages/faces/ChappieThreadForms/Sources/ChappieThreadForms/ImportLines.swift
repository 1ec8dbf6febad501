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
    /// The number of an incomplete last line, whose program ended while it wrote the line.
    private(set) var tornLine: Int?

    init(_ file: FileLines) { source = .file(file) }

    init(_ bytes: [UInt8]) { source = .bytes(bytes[...]) }

    /// Returns whether the first character of a document begins an array.
    func isArray() throws(ThreadFault) -> Bool {
        let start: [UInt8] =
            switch source {
            case .file(let file): try ThreadFault.reading { () throws(WholeFile.Failure) in try file.start(16) }
            case .bytes(let bytes): Array(bytes.prefix(16))
            }
        return start.first { !Self.isBlank($0) } == UInt8(ascii: "[")
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
            throw .line(number, "it is not a JSON object")
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

    private mutating func nextBytes() throws(ThreadFault) -> (bytes: [UInt8], isWhole: Bool)? {
        switch source {
        case .file(let file): return try ThreadFault.reading { () throws(WholeFile.Failure) in try file.next() }
        case .bytes(let bytes):
            guard !bytes.isEmpty else { return nil }
            let line = bytes.prefix { $0 != UInt8(ascii: "\n") }
            source = .bytes(bytes[line.endIndex...].dropFirst())
            return (Array(line), line.endIndex < bytes.endIndex)
        }
    }

    private static func isBlank(_ byte: UInt8) -> Bool { [0x20, 0x09, 0x0A, 0x0D].contains(byte) }
}
