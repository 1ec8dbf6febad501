import CZstd

/// The `zstd` content coding (RFC 8878) for request bodies.
enum ZstdCompression {
    /// One frame that holds `bytes`, its content size in the frame header; `nil` when the library has no memory left.
    ///
    /// - Parameter level: 3, the library's own default, is fast enough to be unnoticed (hundreds of MB a second).
    static func compress(_ bytes: [UInt8], level: CInt = 3) -> [UInt8]? {
        let bound = ZSTD_compressBound(bytes.count)
        guard ZSTD_isError(bound) == 0 else { return nil }
        var failed = false
        let frame = [UInt8](unsafeUninitializedCapacity: bound) { buffer, count in
            let written = bytes.withUnsafeBytes {
                ZSTD_compress(buffer.baseAddress, buffer.count, $0.baseAddress, $0.count, level)
            }
            failed = ZSTD_isError(written) != 0
            count = failed ? 0 : written
        }
        return failed ? nil : frame
    }
}
