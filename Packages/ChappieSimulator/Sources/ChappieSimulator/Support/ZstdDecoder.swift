import CZstd

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
