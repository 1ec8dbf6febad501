import ChappieCore
import TestFixtures

@testable import ChappieSimulator
@testable import ChappieSimulatorServer

/// A WebSocket client in its plainest form, that shares nothing with the server it talks to: it blocks, masks with a
/// fixed key, and shows every frame.
final class TestWebSocket {
    struct Frame: Equatable {
        var opcode: UInt8
        var payload: [UInt8]
        var isFinal = true
        /// 4, 2 and 1 for RSV1, RSV2 and RSV3.
        var reservedBits: UInt8 = 0
        var isMasked = false

        var text: String { String(decoding: payload, as: UTF8.self) }
        var json: ChappieJSON { (try? ChappieJSON(parsing: payload)) ?? .null }
    }

    /// The answer to the handshake, with its empty line; what came of it when the connection ended before.
    let head: String
    let socket: LoopbackConnection
    /// Control frames that came among the messages.
    private(set) var controls: [Frame] = []
    private let deflate: PermessageDeflate?

    init(_ simulator: Simulator, offer: String? = nil, token: String? = nil, headers: [String] = []) throws {
        socket = try LoopbackConnection(port: simulator.port)
        let lines =
            [
                "GET /backend-api/codex/responses HTTP/1.1", "Host: 127.0.0.1", "Connection: keep-alive, Upgrade",
                "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
                Simulator.versionHeader, Simulator.routingHint("gpt-6.1-sol"),
                "Authorization: Bearer \(token ?? simulator.signIn().accessToken)",
            ] + (offer.map { ["Sec-WebSocket-Extensions: \($0)"] } ?? []) + headers
        socket.send(lines.joined(separator: "\r\n") + "\r\n\r\n")
        head = socket.receive(until: "\r\n\r\n")
        deflate =
            head.lowercased().contains("sec-websocket-extensions: permessage-deflate")
            ? PermessageDeflate(DeflateTerms()) : nil
    }

    var status: Int { Int(head.split(separator: " ").dropFirst().first ?? "") ?? 0 }

    func header(_ name: String) -> String? {
        head.split(separator: "\r\n").first { $0.lowercased().hasPrefix(name + ": ") }
            .map { String($0.dropFirst(name.count + 2)) }
    }

    // MARK: Sending

    func send(_ value: ChappieJSON) { send(text: value.serialized()) }

    func send(text: String) {
        let compressed = try? deflate?.compress(Array(text.utf8))
        let payload = compressed ?? Array(text.utf8)
        send(Frame(opcode: 1, payload: payload, reservedBits: compressed == nil ? 0 : 4, isMasked: true))
    }

    func send(_ frame: Frame) { socket.send(Self.bytes(of: frame)) }

    static func bytes(of frame: Frame) -> [UInt8] {
        let mask: UInt8 = frame.isMasked ? 0x80 : 0
        var bytes = [(frame.isFinal ? 0x80 : 0) | frame.reservedBits << 4 | frame.opcode]
        let count = frame.payload.count
        if count < 126 {
            bytes.append(mask | UInt8(count))
        } else if count < 65_536 {
            bytes += [mask | 126, UInt8(count >> 8), UInt8(count & 0xFF)]
        } else {
            bytes += [mask | 127] + (0..<8).map { UInt8(truncatingIfNeeded: count >> (56 - $0 * 8)) }
        }
        guard frame.isMasked else { return bytes + frame.payload }
        let key: [UInt8] = [0x37, 0xFA, 0x21, 0x3D]
        return bytes + key + frame.payload.enumerated().map { $0.element ^ key[$0.offset % 4] }
    }

    // MARK: Receiving

    /// The next frame as it is; `nil` when the connection ends first.
    func frame() -> Frame? {
        guard let start = socket.receive(count: 2) else { return nil }
        var count = Int(start[1] & 0x7F)
        if count >= 126 {
            guard let length = socket.receive(count: count == 126 ? 2 : 8) else { return nil }
            count = length.reduce(0) { $0 << 8 | Int($1) }
        }
        guard start[1] & 0x80 == 0 || socket.receive(count: 4) != nil else { return nil }
        guard let payload = socket.receive(count: count) else { return nil }
        return Frame(
            opcode: start[0] & 0xF, payload: payload, isFinal: start[0] & 0x80 != 0,
            reservedBits: start[0] >> 4 & 0x7, isMasked: start[1] & 0x80 != 0)
    }

    /// The next message or close frame, defragmented and decompressed; `nil` when the connection ends first.
    func message() -> Frame? {
        var whole: Frame?
        while let frame = frame() {
            if frame.opcode == 8 { return frame }
            if frame.opcode > 8 {
                controls.append(frame)
                continue
            }
            if whole == nil { whole = frame } else { whole?.payload += frame.payload }
            guard frame.isFinal, var message = whole else { continue }
            guard message.reservedBits == 4, let deflate else { return message }
            message.payload = (try? deflate.decompress(message.payload, limit: 1 << 28)) ?? []
            return message
        }
        return nil
    }

    /// The messages up to the one that ends the response, or the connection.
    func answer() -> [ChappieJSON] {
        let ends = ["response.completed", "response.failed", "response.incomplete", "error"]
        var events: [ChappieJSON] = []
        while let message = message(), message.opcode != 8 {
            events.append(message.json)
            if let type = message.json["type"]?.string, ends.contains(type) { break }
        }
        return events
    }

    func ask(
        _ text: String, _ more: [(String, ChappieJSON)] = [], tools: [ChappieJSON] = []
    ) -> [ChappieJSON] {
        send(Self.create(text, more, tools: tools))
        return answer()
    }

    static let liteMarker = "ws_request_header_x_openai_internal_codex_responses_lite"

    static func create(
        _ text: String, _ more: [(String, ChappieJSON)] = [], tools: [ChappieJSON] = []
    ) -> ChappieJSON { message(Simulator.turn(text, more, tools: tools)) }

    /// A turn as a message, marked as lite unless it has metadata of its own.
    static func message(_ turn: ChappieJSON) -> ChappieJSON {
        let start: ChappieJSONObject = ["type": "response.create", "client_metadata": [liteMarker: "true"]]
        let members = start.members + (turn.object?.members ?? [])
        return .object(ChappieJSONObject(members.map { ($0.name, $0.value) }))
    }
}

extension [ChappieJSON] {
    var responseID: String? { last?["response"]?["id"]?.string }
    var errorCode: String? { last?["error"]?["code"]?.string }
}

extension Simulator {
    /// A simulator and a client of its WebSocket, on a thread of their own.
    @discardableResult
    static func withWebSocket<Value: Sendable>(
        _ configuration: SimulatorConfiguration = SimulatorConfiguration(), named name: String? = nil,
        scenario: String? = nil, offer: String? = nil, headers: [String] = [],
        _ body: @escaping @Sendable (TestWebSocket, Simulator) throws -> Value
    ) async throws -> Value {
        try await during(configuration, named: name, scenario: scenario) { simulator in
            try body(try TestWebSocket(simulator, offer: offer, headers: headers), simulator)
        }
    }
}
