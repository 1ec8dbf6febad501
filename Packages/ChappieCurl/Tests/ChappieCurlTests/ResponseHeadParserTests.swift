import HTTPTypes
import Testing

@_spi(ChappieInternals) @testable import ChappieCurl

@Suite struct ResponseHeadParserTests {
    @Test(arguments: [
        (["HTTP/1.1 200 OK\r\n", "a: 1\r\n", "A:2 \r\n", "\r\n"], 200, ["a: 1", "A: 2"]),
        (["HTTP/2 204 \r\n", "x-y: \t z\t\r\n", "\r\n"], 204, ["x-y: z"]),
        (["HTTP/1.0 404 Not Found\n", "\n"], 404, []),
        (["HTTP/1.1 100 Continue\r\n", "\r\n", "HTTP/1.1 200\r\n", "b:\r\n", "\r\n", "trailer: 1\r\n"], 200, ["b: "]),
        (["HTTP/1.1 200 OK\r\n", "no colon\r\n", ": no name\r\n", "sp ace: 1\r\n", "nul: \0\r\n", "\r\n"], 200, []),
    ])
    func findsTheFinalHead(lines: [String], status: Int, fields: [String]) {
        var parser = ResponseHeadParser(byteLimit: 256 << 10, isStrict: false)
        var heads: [ResponseHead] = []
        for line in lines {
            if case .complete(let head) = parser.receivedLine(Array(line.utf8)) { heads.append(head) }
        }
        #expect(heads.map(\.status.code) == [status])
        #expect(heads.first?.headerFields.map { "\($0.name.rawName): \($0.value)" } == fields)
        #expect(parser.isComplete)
    }

    @Test(arguments: ["HTTP/1.1\r\n", "HTTP/1.1 99 Low\r\n", "HTTP/1.1 2000 High\r\n", "ICY 200 OK\r\n", "\u{0}\r\n"])
    func refusesAStatusLineThatIsNone(line: String) {
        var parser = ResponseHeadParser(byteLimit: 256 << 10, isStrict: false)
        let outcome = parser.receivedLine(Array(line.utf8))
        #expect(outcome == .failed("its status line can't be understood"))
    }

    @Test func boundsWhatItTakes() {
        var parser = ResponseHeadParser(byteLimit: 256 << 10, isStrict: false)
        _ = parser.receivedLine(Array("HTTP/1.1 200 OK\r\n".utf8))
        let line = Array("x: \(String(repeating: "a", count: 1000))\r\n".utf8)
        var lines = 0
        while parser.receivedLine(line) == .more { lines += 1 }
        #expect(lines == ((256 << 10) - 17) / line.count)
    }

    /// 65,535 of them, which fit into the bytes, would end the process in `HTTPFields`.
    @Test func boundsHowManyFieldsItTakes() {
        var parser = ResponseHeadParser(byteLimit: 256 << 10, isStrict: false)
        _ = parser.receivedLine(Array("HTTP/1.1 200 OK\r\n".utf8))
        let line = Array("a:\n".utf8)
        for _ in 0..<ResponseHeadParser.fieldLimit { #expect(parser.receivedLine(line) == .more) }
        #expect(parser.receivedLine(line) == .failed("its response head has over 1000 fields"))
    }

    @Test func eachHeadHasItsOwnFields() {
        var parser = ResponseHeadParser(byteLimit: 256 << 10, isStrict: false)
        for status in ["103 Early Hints", "200 OK"] {
            _ = parser.receivedLine(Array("HTTP/1.1 \(status)\r\n".utf8))
            for _ in 0..<(ResponseHeadParser.fieldLimit - 1) { _ = parser.receivedLine(Array("a:\n".utf8)) }
            _ = parser.receivedLine(Array("last: \(status)\r\n".utf8))
            let end = parser.receivedLine(Array("\r\n".utf8))
            guard status == "200 OK" else {
                #expect(end == .more)
                continue
            }
            guard case .complete(let head) = end else {
                Issue.record("\(end)")
                return
            }
            #expect(head.headerFields.count == ResponseHeadParser.fieldLimit)
        }
    }
}
