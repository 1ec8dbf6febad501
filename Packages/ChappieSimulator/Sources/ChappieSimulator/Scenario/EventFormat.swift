/// How server-sent events become lines. Every variant is allowed by the format (WHATWG HTML, 9.2.6) except the missing
/// blank line at the end, after which a strict reader drops the last event.
struct EventFormat: Sendable, Hashable {
    static let members: Set<String> = [
        "crlf", "bom", "comments", "names", "ids", "splitData", "omitFinalBlankLine",
    ]

    /// Ends lines with CR LF.
    var usesCRLF = false
    /// Starts with a byte order mark.
    var startsWithBOM = false
    /// Puts a comment line before every event.
    var addsComments = false
    /// Writes `event:` lines.
    var writesNames = true
    /// Writes `id:` and `retry:` lines.
    var writesIDs = false
    /// Breaks data after its first comma into two `data:` lines.
    var splitsData = false
    /// Leaves out the blank line after the last event.
    var omitsFinalBlankLine = false

    init() {}

    init(_ reader: ScenarioReader) throws(SimulatorError) {
        usesCRLF = try reader["crlf"]?.bool() ?? false
        startsWithBOM = try reader["bom"]?.bool() ?? false
        addsComments = try reader["comments"]?.bool() ?? false
        writesNames = try reader["names"]?.bool() ?? true
        writesIDs = try reader["ids"]?.bool() ?? false
        splitsData = try reader["splitData"]?.bool() ?? false
        omitsFinalBlankLine = try reader["omitFinalBlankLine"]?.bool() ?? false
    }

    /// The bytes of one event.
    func write(_ event: StreamedEvent, isFirst: Bool, isLast: Bool) -> [UInt8] {
        let lineEnd = Array((usesCRLF ? "\r\n" : "\n").utf8)
        var bytes: [UInt8] = []
        bytes.reserveCapacity(event.data.count + event.name.utf8.count + 32)
        func line(_ field: String, _ value: some Sequence<UInt8>, into bytes: inout [UInt8]) {
            bytes.append(contentsOf: field.utf8)
            bytes.append(contentsOf: value)
            bytes.append(contentsOf: lineEnd)
        }
        if isFirst, startsWithBOM { bytes += [0xEF, 0xBB, 0xBF] }
        if addsComments { line(": ", "keep-alive".utf8, into: &bytes) }
        if writesNames { line("event: ", event.name.utf8, into: &bytes) }
        if writesIDs {
            line("id: ", "1".utf8, into: &bytes)
            line("retry: ", "3000".utf8, into: &bytes)
        }
        if splitsData, let comma = event.data.firstIndex(of: UInt8(ascii: ",")) {
            line("data: ", event.data[...comma], into: &bytes)
            line("data: ", event.data[(comma + 1)...], into: &bytes)
        } else {
            line("data: ", event.data, into: &bytes)
        }
        if !(isLast && omitsFinalBlankLine) { bytes.append(contentsOf: lineEnd) }
        return bytes
    }
}
