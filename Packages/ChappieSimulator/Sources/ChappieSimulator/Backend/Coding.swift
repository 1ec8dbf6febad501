import CZstd
@_spi(ChappieInternals) import ChappieCore

/// The fields of an `application/x-www-form-urlencoded` body or a query (WHATWG URL, 5.1).
struct FormFields: Sendable {
    private let fields: [(name: String, value: String)]

    /// Takes anything: what is not an escape stays as it is, and bytes that are not UTF-8 become U+FFFD.
    init(_ bytes: [UInt8]) {
        fields = bytes.split(separator: UInt8(ascii: "&")).prefix(1000).map { pair in
            let halves = pair.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            return (Self.decode(halves[0]), halves.count > 1 ? Self.decode(halves[1]) : "")
        }
    }

    /// The first field called `name`.
    subscript(name: String) -> String? { fields.first { $0.name == name }?.value }

    private static func decode(_ bytes: ArraySlice<UInt8>) -> String {
        var output: [UInt8] = []
        output.reserveCapacity(bytes.count)
        var rest = bytes
        while let byte = rest.popFirst() {
            if byte == UInt8(ascii: "+") {
                output.append(0x20)
            } else if byte == UInt8(ascii: "%"), let high = rest.first.flatMap(hexDigit),
                let low = rest.dropFirst().first.flatMap(hexDigit)
            {
                output.append(high << 4 | low)
                rest = rest.dropFirst(2)
            } else {
                output.append(byte)
            }
        }
        return String(decoding: output, as: UTF8.self)
    }

    private static func hexDigit(_ byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
        default: nil
        }
    }
}

/// Decodes a zstd body (RFC 8878) whose frames need not say how long they are.
enum ZstdDecoder {
    enum Failure: Error, Sendable, Hashable {
        /// Not zstd, damaged, cut short, or in need of a window over 8 MiB (the limit of RFC 9659 on the web).
        case malformed
        /// More than the limit.
        case tooLarge
    }

    static func decode(_ bytes: [UInt8], limit: Int) throws(Failure) -> [UInt8] {
        guard let stream = ZSTD_createDStream() else { throw .malformed }
        defer { ZSTD_freeDStream(stream) }
        ZSTD_DCtx_setParameter(stream, ZSTD_d_windowLogMax, 23)
        var output: [UInt8] = []
        let result = bytes.withUnsafeBytes { source in inflate(source, with: stream, into: &output, limit: limit) }
        if let failure = result { throw failure }
        return output
    }

    private static func inflate(
        _ source: UnsafeRawBufferPointer, with stream: OpaquePointer, into output: inout [UInt8], limit: Int
    ) -> Failure? {
        var input = ZSTD_inBuffer(src: source.baseAddress, size: source.count, pos: 0)
        var chunk = [UInt8](repeating: 0, count: ZSTD_DStreamOutSize())
        while true {
            var produced = 0
            let remaining = chunk.withUnsafeMutableBytes { target in
                var sink = ZSTD_outBuffer(dst: target.baseAddress, size: target.count, pos: 0)
                let remaining = ZSTD_decompressStream(stream, &sink, &input)
                produced = sink.pos
                return remaining
            }
            if ZSTD_isError(remaining) != 0 { return .malformed }
            if output.count + produced > limit { return .tooLarge }
            output.append(contentsOf: chunk[..<produced])
            guard input.pos == input.size else { continue }
            // 0 says that a frame has ended and everything in it has come out.
            if remaining == 0 { return nil }
            if produced < chunk.count { return .malformed }
        }
    }
}

/// Identifiers that are counted from 1 for each prefix, with 32 digits: the same requests in the same order always get
/// the same identifiers, and every answer to the same question has the same length.
struct CountedIdentifiers: Sendable {
    private var counters: [String: Int] = [:]

    mutating func counted(_ prefix: String) -> String {
        counters[prefix, default: 0] += 1
        let digits = String(counters[prefix, default: 0], radix: 16)
        return prefix + String(repeating: "0", count: max(0, 32 - digits.count)) + digits
    }
}

/// `prefix` and 32 random bytes in base64url (43 characters): what must not be guessed.
func randomSecret(_ prefix: String = "") -> String {
    prefix + Base64URL.encode((0..<32).map { _ in UInt8.random(in: .min ... .max) })
}
