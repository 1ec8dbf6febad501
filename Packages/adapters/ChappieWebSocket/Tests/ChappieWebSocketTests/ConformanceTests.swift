import CZlib
import ChappieCore
import ChappieTesting
import TestFixtures
import Testing

@testable import ChappieWebSocket

/// The cases of the Autobahn suite that no other test here has, by its sections, for machines without the Python 2.7 that
/// the suite needs.
@Suite(.byItself) struct ConformanceTests {
    private typealias Wire = WebSocketFrames

    @Test(arguments: reserved + control + fragments + closing)
    func reads(_ example: CodecCase) { example.verify() }

    private static func begun(_ text: String) -> [UInt8] { Wire.frame(1, Array(text.utf8), isFinal: false) }
    private static func continued(_ text: String, isFinal: Bool = false) -> [UInt8] {
        Wire.frame(0, Array(text.utf8), isFinal: isFinal)
    }
    private static let unexpected = WebSocketError.violation("the server continued a message that it had not begun")
    private static let wrongBit = WebSocketError.violation("the server set a reserved bit in a frame")

    /// Sections 3 and 4: what is reserved, between messages and inside one.
    static let reserved: [CodecCase] =
        (1...7).flatMap { (bits: UInt8) in
            [
                CodecCase(
                    "bits \(bits) after a message",
                    Wire.text("a") + Wire.frame(1, [0x62], reserved: bits) + Wire.ping(),
                    messages: [.text("a")], fails: wrongBit),
                CodecCase(
                    "bits \(bits) inside a message", begun("a") + Wire.frame(0, [0x62], reserved: bits), fails: wrongBit
                ),
            ]
        }
        + ([3, 4, 5, 6, 7, 0xB, 0xC, 0xD, 0xE, 0xF] as [UInt8]).map { opcode in
            CodecCase(
                "opcode \(opcode) inside a message, with a payload",
                begun("a") + Wire.frame(opcode, [0x62]) + continued("c", isFinal: true),
                fails: .violation("the server sent a frame of the unknown kind \(opcode)"))
        }

    /// Section 2: pings and pongs.
    static let control: [CodecCase] = [
        .init(
            "ten pings", (0..<10).flatMap { Wire.ping("payload-\($0)") },
            sends: (0..<10).flatMap { ClientFrame.pong(Array("payload-\($0)".utf8)) }),
        .init(
            "a ping of every byte", Wire.frame(9, [0x00, 0xFF, 0xFE, 0xFD, 0xFC, 0xFB, 0x00, 0xFF]),
            sends: ClientFrame.pong([0x00, 0xFF, 0xFE, 0xFD, 0xFC, 0xFB, 0x00, 0xFF])),
        .init(
            "pongs that nobody asked for, and a ping",
            Wire.frame(0xA, []) + Wire.frame(0xA, Array("unsolicited".utf8)) + Wire.ping("p"),
            sends: ClientFrame.pong(Array("p".utf8))),
    ]

    /// Section 5: fragments.
    static let fragments: [CodecCase] = [
        .init(
            "five fragments with pings between, each answered",
            begun("1") + continued("2") + Wire.ping("a") + continued("3") + continued("4") + Wire.ping("b")
                + continued("5", isFinal: true),
            messages: [.text("12345")],
            sends: ClientFrame.pong(Array("a".utf8)) + ClientFrame.pong(Array("b".utf8))),
        .init(
            "a ping between fragments of bytes, and a pong",
            Wire.frame(2, [1], isFinal: false) + Wire.ping("a") + Wire.frame(0xA, [9]) + Wire.frame(0, [2]),
            messages: [.binary([1, 2])], sends: ClientFrame.pong(Array("a".utf8))),
        .init("a beginning of nothing", continued("a") + Wire.text("b"), fails: unexpected),
        .init("an empty beginning of nothing", continued("") + Wire.text("b"), fails: unexpected),
        .init(
            "a message, a beginning of nothing, a message",
            begun("a") + continued("b", isFinal: true) + continued("c") + Wire.text("d"), messages: [.text("ab")],
            fails: unexpected),
        .init(
            "a message that begins twice", begun("a") + begun("b"),
            fails: .violation("the server began a message inside another one")),
        .init("a ping in fragments", Wire.frame(9, [1], isFinal: false) + Wire.frame(0, [2]), fails: fragmented),
        .init(
            "a pong in fragments inside a message", begun("a") + Wire.frame(0xA, [1], isFinal: false), fails: fragmented
        ),
    ]
    private static let fragmented = WebSocketError.violation("the server sent a control frame in fragments")

    /// Section 7: closing.
    static let closing: [CodecCase] = [
        .init("two closes", Wire.close(1000) + Wire.close(1000), closes: .normal),
        .init(
            "a close inside a message, and the rest of it",
            begun("a") + Wire.close(1000) + continued("b", isFinal: true),
            closes: .normal),
        .init(
            "a close with 124 bytes of reason", Wire.close(1000, reason: String(repeating: "*", count: 124)),
            fails: .violation("the server sent a control frame of more than 125 bytes")),
        .init(
            "a close whose reason becomes a surrogate at its end",
            Wire.frame(8, [0x03, 0xE8, 0xCE, 0xBA, 0xE1, 0xBD, 0xB9, 0xED, 0xA0, 0x80]), fails: .invalidUTF8),
    ]

    /// Section 6: text is refused as soon as it can't be UTF-8 any more, while its message goes on.
    @Test(
        arguments: [
            // What may be text still, and what can't.
            ([0xCE, 0xBA, 0xE1, 0xBD, 0xB9, 0xCF, 0x83, 0xF4], [0x90]),
            ([0xCE, 0xBA, 0xE1, 0xBD, 0xB9, 0xCF, 0x83, 0xED], [0xA0]),
            ([0x61, 0xF0, 0x9F], [0x61]), ([0x61], [0xF5]), ([0xE0], [0x9F]), ([0xF0], [0x8F]),
        ] as [([UInt8], [UInt8])])
    func refusesTextAtTheFrameOrTheByteThatIsWrong(_ good: [UInt8], _ bad: [UInt8]) {
        var framed = WebSocketCodec.test()
        #expect(framed.receive(Wire.frame(1, good, isFinal: false)) == WebSocketCodec.Output())
        #expect(framed.receive(Wire.frame(0, bad, isFinal: false)).end == .failure(.invalidUTF8))
        var chopped = WebSocketCodec.test()
        #expect(chopped.receive([[0x81, UInt8(good.count + bad.count + 20)]] + good.map { [$0] }).end == nil)
        #expect(chopped.receive(bad).end == .failure(.invalidUTF8))
    }

    // MARK: Sections 1, 9 and 10

    private static func chopped(_ bytes: [UInt8], by size: Int) -> [[UInt8]] {
        stride(from: 0, to: bytes.count, by: size).map { Array(bytes[$0..<min($0 + size, bytes.count)]) }
    }

    /// A message in frames of at most so many bytes; `reserved` is for the first.
    private static func frames(_ opcode: UInt8, _ payload: [UInt8], of size: Int, reserved: UInt8 = 0) -> [UInt8] {
        let pieces = payload.isEmpty ? [[]] : chopped(payload, by: size)
        return pieces.enumerated().flatMap { index, piece in
            Wire.frame(
                index == 0 ? opcode : 0, piece, isFinal: index == pieces.count - 1, reserved: index == 0 ? reserved : 0)
        }
    }

    @Test(
        "messages at the bounds of the lengths arrive whole, in frames and reads of every size",
        arguments: [65_535, 65_536, 65_537, 262_144], [64, 1300, 65_536, 262_144])
    func readsLargeMessages(_ size: Int, _ frame: Int) {
        let text = [UInt8](repeating: 0x2A, count: size)
        let bytes = (0..<size).map { UInt8(truncatingIfNeeded: $0 &* 7) }
        let wire = Self.frames(1, text, of: frame) + Self.frames(2, bytes, of: frame) + Wire.close(1000)
        for read in [997, 16 << 10, wire.count] {
            var codec = WebSocketCodec.test()
            let output = codec.receive(Self.chopped(wire, by: read))
            #expect(
                output.messages == [.text(String(decoding: text, as: UTF8.self)), .binary(bytes)], "reads of \(read)")
            #expect(output.end == .success(.normal), "reads of \(read)")
        }
    }

    // MARK: Sections 12 and 13

    private static let agreements: [DeflateParameters] = [false, true].flatMap { forgets in
        [9, 12, 15].flatMap { window in
            [
                DeflateParameters(serverNoContextTakeover: forgets, serverMaxWindowBits: window),
                DeflateParameters(clientNoContextTakeover: forgets, clientMaxWindowBits: window),
                DeflateParameters(
                    serverNoContextTakeover: forgets, clientNoContextTakeover: forgets, serverMaxWindowBits: window,
                    clientMaxWindowBits: window),
            ]
        }
    }

    /// zlib itself is the other side. It keeps to the agreement: it would fail on a window that is too large, and on a
    /// message that refers to one that it has forgotten.
    @Test("compressed messages of every size pass under every agreement, both ways", arguments: agreements)
    func compressesAsAgreed(_ agreement: DeflateParameters) throws {
        var codec = WebSocketCodec.test(compression: agreement)
        let peer = try ZlibPeer(agreement)
        var generator = SplitMix64(seed: 12)
        for size in [0, 1, 16, 256, 4096, 32_768, 66_000] {
            let texts = (0..<size).map { _ in UInt8.random(in: 0x61...0x64, using: &generator) }
            let noise = (0..<size).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
            for (payload, frame) in [(texts, 1 << 20), (noise, 1300), (texts, 64)] {
                let wire = Self.frames(2, try peer.compress(payload), of: frame, reserved: 4)
                let received = codec.receive(Self.chopped(wire, by: 4096))
                #expect(
                    received == WebSocketCodec.Output(messages: [.binary(payload)]), "\(size) in frames of \(frame)")
                let sent = try #require(ClientFrame.read(try codec.send(.binary(payload))))
                #expect(sent.count == 1)
                for frame in sent {
                    let isCompressed = frame.first == 0xC2
                    #expect(isCompressed || payload.isEmpty && frame.first == 0x82)
                    #expect(try (isCompressed ? peer.decompress(frame.payload) : frame.payload) == payload)
                }
            }
        }
    }
}

/// A server's side of permessage-deflate (RFC 7692, 7.2), over zlib.
private final class ZlibPeer {
    private struct Failure: Error { let status: CInt }

    private let agreement: DeflateParameters
    private let deflater = UnsafeMutablePointer<z_stream>.allocate(capacity: 1)
    private let inflater = UnsafeMutablePointer<z_stream>.allocate(capacity: 1)

    init(_ agreement: DeflateParameters) throws {
        self.agreement = agreement
        deflater.initialize(to: z_stream())
        inflater.initialize(to: z_stream())
        try Self.check(czlib_deflate_init_raw(deflater, 9, CInt(agreement.serverMaxWindowBits), 9))
        try Self.check(czlib_inflate_init_raw(inflater, CInt(agreement.clientMaxWindowBits)))
    }

    deinit {
        deflateEnd(deflater)
        inflateEnd(inflater)
        deflater.deallocate()
        inflater.deallocate()
    }

    private static func check(_ status: CInt) throws {
        guard status == Z_OK else { throw Failure(status: status) }
    }

    func compress(_ message: [UInt8]) throws -> [UInt8] {
        let flushed = try run(deflater, message, room: 2 * message.count + 64, deflate)
        if agreement.serverNoContextTakeover { try Self.check(deflateReset(deflater)) }
        // A flush of nothing has nothing new to say: RFC 7692, 7.2.3.6 is the empty block's first byte.
        return flushed.isEmpty ? [0x00] : Array(flushed.dropLast(4))
    }

    func decompress(_ message: [UInt8]) throws -> [UInt8] {
        let contents = try run(inflater, message + [0x00, 0x00, 0xFF, 0xFF], room: 1 << 18, inflate)
        if agreement.clientNoContextTakeover { try Self.check(inflateReset(inflater)) }
        return contents
    }

    private func run(
        _ stream: UnsafeMutablePointer<z_stream>, _ input: [UInt8], room: Int,
        _ function: (UnsafeMutablePointer<z_stream>, CInt) -> CInt
    ) throws -> [UInt8] {
        var input = input
        var output = [UInt8](repeating: 0, count: room)
        let rest: uInt = try input.withUnsafeMutableBufferPointer { source in
            try output.withUnsafeMutableBufferPointer { target in
                stream.pointee.next_in = source.baseAddress
                stream.pointee.avail_in = uInt(source.count)
                stream.pointee.next_out = target.baseAddress
                stream.pointee.avail_out = uInt(target.count)
                let status = function(stream, Z_SYNC_FLUSH)
                guard status == Z_OK || status == Z_BUF_ERROR, stream.pointee.avail_in == 0 else {
                    throw Failure(status: status)
                }
                return stream.pointee.avail_out
            }
        }
        return Array(output.dropLast(Int(rest)))
    }
}
