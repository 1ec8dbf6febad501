@_spi(ChappieInternals) import ChappieCore

/// A second reading of WHATWG HTML 9.2.6, written for clarity only: the whole stream at once, scalar by scalar. The
/// decoder is compared with it on streams that no table foresees.
enum ReferenceEventStream {
    static func events(of bytes: [UInt8]) -> [ServerSentEvent] {
        var events: [ServerSentEvent] = []
        var (type, id, data) = ("", "", [String]())
        func dispatch() {
            if !data.isEmpty {
                let name = type.isEmpty ? "message" : type
                events.append(ServerSentEvent(type: name, data: data.joined(separator: "\n"), lastEventID: id))
            }
            (type, data) = ("", [])
        }
        for line in lines(of: bytes) {
            guard !line.isEmpty else {
                dispatch()
                continue
            }
            let colon = line.firstIndex(of: ":") ?? line.endIndex
            var value = line[colon...].dropFirst()
            if value.first == " " { value = value.dropFirst() }
            let text = String(String.UnicodeScalarView(value))
            switch String(String.UnicodeScalarView(line[..<colon])) {
            case "data": data.append(text)
            case "event": type = text
            case "id" where !value.contains("\0"): id = text
            default: break
            }
        }
        dispatch()
        return events
    }

    private static func lines(of bytes: [UInt8]) -> [[Unicode.Scalar]] {
        var scalars = Array(String(decoding: bytes, as: UTF8.self).unicodeScalars)
        if bytes.starts(with: [0xEF, 0xBB, 0xBF]) { scalars.removeFirst() }
        var lines: [[Unicode.Scalar]] = [[]]
        var index = 0
        while index < scalars.count {
            switch scalars[index] {
            case "\r":
                if index + 1 < scalars.count, scalars[index + 1] == "\n" { index += 1 }
                lines.append([])
            case "\n": lines.append([])
            default: lines[lines.count - 1].append(scalars[index])
            }
            index += 1
        }
        // What follows the last line end is a line only if there is something in it.
        if lines.last?.isEmpty == true { lines.removeLast() }
        return lines
    }
}
