@_spi(ChappieInternals) import ChappieCore
import HTTPTypes
import Testing

@Suite struct ResponseHeadParserTests {
    private func outcomes(_ lines: [String]) -> [ResponseHeadParser.Outcome] {
        var parser = ResponseHeadParser(byteLimit: 256 << 10, isStrict: false)
        return lines.map { parser.receivedLine(Array($0.utf8)) }
    }

    private func finalHead(_ lines: [String]) throws -> ResponseHead {
        let heads = outcomes(lines).compactMap { if case .complete(let head) = $0 { head } else { nil } }
        #expect(heads.count == 1)
        return try #require(heads.first)
    }

    @Test(arguments: [
        (["HTTP/1.1 200 OK\r\n", "a: 1\r\n", "A:2 \r\n", "\r\n"], 200, ["a: 1", "A: 2"]),
        (["HTTP/2 204 \r\n", "x-y: \t z\t\r\n", "\r\n"], 204, ["x-y: z"]),
        (["HTTP/1.0 404 Not Found\n", "\n"], 404, []),
        (["HTTP/1.1 100 Continue\r\n", "\r\n", "HTTP/1.1 200\r\n", "b:\r\n", "\r\n", "trailer: 1\r\n"], 200, ["b: "]),
        (["HTTP/1.1 200 OK\r\n", "no colon\r\n", ": no name\r\n", "sp ace: 1\r\n", "nul: \0\r\n", "\r\n"], 200, []),
    ])
    func findsTheFinalHead(lines: [String], status: Int, fields: [String]) throws {
        let head = try finalHead(lines)
        #expect(head.status.code == status)
        #expect(head.headerFields.map { "\($0.name.rawName): \($0.value)" } == fields)
    }

    @Test(arguments: ["HTTP/1.1\r\n", "HTTP/1.1 99 Low\r\n", "HTTP/1.1 2000 High\r\n", "ICY 200 OK\r\n", "\u{0}\r\n"])
    func refusesAStatusLineThatIsNone(line: String) {
        #expect(outcomes([line]) == [.failed("its status line can't be understood")])
    }

    /// 65,535 fields, which fit into the bytes, would end the process in `HTTPFields`.
    @Test func boundsWhatItTakes() {
        let line = "x: \(String(repeating: "a", count: 1000))\r\n"
        let long = outcomes(["HTTP/1.1 200 OK\r\n"] + Array(repeating: line, count: 300))
        #expect(long.prefix { $0 == .more }.count == 1 + ((256 << 10) - 17) / line.utf8.count)
        let many = outcomes(["HTTP/1.1 200 OK\r\n"] + Array(repeating: "a:\n", count: 1001))
        #expect(many.dropLast().allSatisfy { $0 == .more })
        #expect(many.last == .failed("its response head has over 1000 fields"))
    }

    @Test func eachHeadHasItsOwnFields() throws {
        let fields = Array(repeating: "a:\n", count: ResponseHeadParser.fieldLimit)
        let lines = ["HTTP/1.1 103 Early Hints\r\n"] + fields + ["\r\n", "HTTP/1.1 200 OK\r\n"] + fields + ["\r\n"]
        #expect(try finalHead(lines).headerFields.count == ResponseHeadParser.fieldLimit)
    }

    @Test(arguments: [
        (["content-length: 3"], true), (["content-length: 3", "Content-Length: 3"], true),
        (["content-length: 3, 3"], true), (["transfer-encoding: chunked", "content-length: x"], true),
        (["content-length: 3", "content-length: 4"], false), (["content-length: 3, 4"], false),
        (["content-length: -3"], false), (["content-length: 99999999999999999999"], false), ([], true),
    ])
    func theLengthOfABodyIsClear(fields: [String], isClear: Bool) throws {
        let head = try finalHead(["HTTP/1.1 200 OK\r\n"] + fields.map { $0 + "\r\n" } + ["\r\n"])
        #expect(head.violation == (isClear ? nil : "the length of its body is unclear"))
    }

    @Test func aSwitchOfProtocolsIsAViolation() throws {
        let head = try finalHead(["HTTP/1.1 101 Switching Protocols\r\n", "\r\n"])
        #expect(head.violation == "it switched protocols without being asked")
    }
}
