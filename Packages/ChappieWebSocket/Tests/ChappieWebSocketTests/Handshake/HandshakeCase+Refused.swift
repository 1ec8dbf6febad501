import ChappieCore
import HTTPTypes

@testable import ChappieWebSocket

extension HandshakeCase {
    static let refused: [HandshakeCase] = [
        .init(
            "a counted body", "HTTP/1.1 401 Unauthorized\r\nContent-Length: 5\r\nX: y\r\n\r\nhello",
            status: .unauthorized, fields: fields(("Content-Length", "5"), ("X", "y")), body: "hello"),
        .init(
            "a counted body, the same twice", "HTTP/1.1 401 Unauthorized\r\nContent-Length: 2, 2\r\n\r\nhi",
            status: .unauthorized, fields: fields(("Content-Length", "2, 2")), body: "hi"),
        .init(
            "a counted body that goes on", "HTTP/1.1 429 \r\nContent-Length: 7\r\n\r\nhello",
            status: .init(code: 429, reasonPhrase: ""), fields: fields(("Content-Length", "7")), body: "hello",
            isComplete: false),
        .init(
            "bytes behind a counted body", "HTTP/1.1 426 Upgrade Required\r\nContent-Length: 2\r\n\r\nhello",
            status: .init(code: 426, reasonPhrase: "Upgrade Required"), fields: fields(("Content-Length", "2")),
            body: "he"),
        .init(
            "an empty body", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", status: .ok,
            fields: fields(("Content-Length", "0")), body: ""),
        .init("no body at all", "HTTP/1.1 204 No Content\r\n\r\n", status: .noContent, fields: [:], body: ""),
        .init(
            "a status that has no body", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", status: .notModified,
            fields: fields(("Content-Length", "5")), body: ""),
        .init(
            "chunks",
            "HTTP/1.1 503 Busy\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\nA;x=y\r\nlo, world!\r\n0\r\nT: u\r\n\r\n",
            status: .init(code: 503, reasonPhrase: "Busy"), fields: fields(("Transfer-Encoding", "chunked")),
            body: "hello, world!"),
        .init(
            "chunks with bare line feeds", "HTTP/1.1 200 OK\nTransfer-Encoding: Chunked\n\n2\nhi\n0\n\n", status: .ok,
            fields: fields(("Transfer-Encoding", "Chunked")), body: "hi"),
        .init(
            "chunks that go on", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n", status: .ok,
            fields: fields(("Transfer-Encoding", "chunked")), body: "hi", isComplete: false),
        .init(
            "chunks although a length is given",
            "HTTP/1.1 200 OK\r\nContent-Length: 99\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
            status: .ok, fields: fields(("Content-Length", "99"), ("Transfer-Encoding", "chunked")), body: "hi"),
        .init(
            "a body that ends with the connection", "HTTP/1.1 404 Not Found\r\n\r\nhello", status: .notFound,
            fields: [:], body: "hello", isComplete: false),
        .init(
            "another coding ends with the connection", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked, gzip\r\n\r\nhi",
            status: .ok, fields: fields(("Transfer-Encoding", "chunked, gzip")), body: "hi", isComplete: false),
        .init(
            "informational heads first",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 403 Forbidden\r\nContent-Length: 1\r\n\r\nx",
            status: .forbidden, fields: fields(("Content-Length", "1")), body: "x"),
    ]

    static let wrongBodies: [HandshakeCase] = [
        "Content-Length: 5, 6\r\n\r\n", "Content-Length: 5\r\nContent-Length: 6\r\n\r\n", "Content-Length: -1\r\n\r\n",
        "Content-Length: 5x\r\n\r\n", "Content-Length: \r\n\r\n", "Content-Length: 18446744073709551616\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\nx\r\n", "Transfer-Encoding: chunked\r\n\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n-1\r\n", "Transfer-Encoding: chunked\r\n\r\n1000000000000000\r\n",
        "Transfer-Encoding: chunked\r\n\r\n2\r\nhello", "Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\r\n",
        "Transfer-Encoding: chunked\r\n\r\n2;" + String(repeating: "x", count: 1024),
    ].map { HandshakeCase($0.prefix(80).debugDescription, "HTTP/1.1 500 x\r\n" + $0, fails: .invalidBody) }

    private static func fields(_ fields: (String, String)...) -> HTTPFields {
        HTTPFields(fields.compactMap { name, value in HTTPField.Name(name).map { HTTPField(name: $0, value: value) } })
    }
}
