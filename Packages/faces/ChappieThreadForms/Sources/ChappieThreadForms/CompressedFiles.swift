import CZlib
@_spi(ChappieInternals) import ChappieFiles

#if canImport(CZstd)
    import CZstd

    /// The bytes of a file that zstd compressed, as the Codex CLI does with older sessions.
    final class ZstdFile {
        private let file: FilePieces
        private let context: OpaquePointer?
        private var input: [UInt8] = []
        private var position = 0
        /// Whether the library may have more output for the input so far.
        private var isFull = false
        /// Whether the input so far ends within a frame.
        private var isCut = true

        init(_ file: FilePieces) {
            self.file = file
            context = ZSTD_createDStream()
        }

        deinit { ZSTD_freeDStream(context) }

        /// Returns the next bytes, which are empty at the end.
        func nextPiece() throws(WholeFile.Failure) -> [UInt8] {
            var output = [UInt8](repeating: 0, count: 64 << 10)
            while true {
                if position == input.count, !isFull {
                    input = try file.next()
                    position = 0
                    guard !input.isEmpty else {
                        guard !isCut else { throw .system("its compressed data is cut") }
                        return []
                    }
                }
                var target = ZSTD_outBuffer()
                var source = ZSTD_inBuffer()
                let result = output.withUnsafeMutableBytes { output in
                    input.withUnsafeBytes { input in
                        target = ZSTD_outBuffer(dst: output.baseAddress, size: output.count, pos: 0)
                        source = ZSTD_inBuffer(src: input.baseAddress, size: input.count, pos: position)
                        return ZSTD_decompressStream(context, &target, &source)
                    }
                }
                guard ZSTD_isError(result) == 0 else { throw .system("its compressed data is damaged") }
                position = source.pos
                isCut = result != 0
                isFull = target.pos == output.count
                if target.pos > 0 { return Array(output[..<target.pos]) }
            }
        }
    }
#endif

/// The files in a zip archive, which are read one after the other
/// (https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT, 4.3).
final class ZipArchive {
    private enum Entry {
        case none
        /// Bytes that are not compressed, and their number.
        case stored(Int)
        case deflated
        /// Bytes that cannot be read, their number if it is known, and the reason.
        case unreadable(Int?, String)
    }

    /// The maximum number of files, and of bytes in all of them. A small archive may otherwise expand to any size.
    private static let limits = (entries: 100_000, bytes: 8 << 30)

    private let file: FilePieces
    private let stream = UnsafeMutablePointer<z_stream>.allocate(capacity: 1)
    private var input: [UInt8] = []
    private var position = 0
    /// The number of bytes of the archive before `input`.
    private var inputStart = 0
    /// The place of the current file's header in the archive.
    private(set) var headerStart = 0
    private var entry = Entry.none
    private var entryCount = 0
    private var byteCount = 0

    init(_ file: FilePieces) {
        self.file = file
        stream.initialize(to: z_stream())
        _ = czlib_inflate_init_raw(stream, 15)
    }

    deinit {
        inflateEnd(stream)
        stream.deallocate()
    }

    /// Returns the name of the next file, or `nil` at the end. The rest of the file before it is left out.
    func nextEntry() throws(WholeFile.Failure) -> String? {
        while true {
            guard let name = try nextHeader() else { return nil }
            if name.last != "/" { return name }
        }
    }

    private func nextHeader() throws(WholeFile.Failure) -> String? {
        if case .unreadable(let length, _) = entry { entry = .stored(length ?? 0) }
        // The next entry can be found behind a damaged one.
        while (try? nextPiece())?.isEmpty == false {}
        guard entryCount < Self.limits.entries, byteCount <= Self.limits.bytes else {
            throw .system(
                "the archive has more than \(Self.limits.entries) files, or \(Self.limits.bytes >> 30) GiB in them")
        }
        entryCount += 1
        // Facts about an entry may also be behind it.
        var signature: UInt32 = 0
        while signature != 0x504B_0304 {
            // This is the list of the entries, which is the end of the archive.
            guard signature != 0x504B_0102 else { return nil }
            guard let byte = try take(1).first else { throw .system("the archive is cut") }
            signature = signature << 8 | UInt32(byte)
        }
        headerStart = inputStart + position - 4
        let header = try take(26)
        guard header.count == 26 else { throw .system("the archive is cut") }
        let value = { (place: Int, length: Int) in
            header[place..<place + length].reversed().reduce(0) { $0 << 8 | Int($1) }
        }
        let (flags, method, size) = (value(2, 2), value(4, 2), value(14, 4))
        let name = String(decoding: try take(value(22, 2)), as: UTF8.self)
        _ = try take(value(24, 2))
        // Bit 3 means that the size is behind the entry. Larger sizes are in another field.
        let length = flags & 8 == 0 && size < 0xFFFF_FFFF ? size : nil
        switch (method, length) {
        case _ where flags & 1 != 0: entry = .unreadable(length, "it is encrypted. Unpack the archive first")
        case (8, _):
            inflateReset(stream)
            entry = .deflated
        case (0, let length?): entry = .stored(length)
        default: entry = .unreadable(length, "it has an unknown form. Unpack the archive first")
        }
        return name
    }

    /// Returns the next bytes of the current file, which are empty at its end.
    func nextPiece() throws(WholeFile.Failure) -> [UInt8] {
        let piece: [UInt8]
        switch entry {
        case .none: return []
        case .stored(let count):
            piece = try take(min(count, 64 << 10))
            entry = piece.isEmpty ? .none : .stored(count - piece.count)
        case .deflated: piece = try inflated()
        case .unreadable(_, let reason): throw .system(reason)
        }
        byteCount += piece.count
        if byteCount > Self.limits.bytes { entry = .none }
        return piece
    }

    private func inflated() throws(WholeFile.Failure) -> [UInt8] {
        var output = [UInt8](repeating: 0, count: 64 << 10)
        while case .deflated = entry {
            if position == input.count { try readMore() }
            var status = Z_OK
            let available = input.count - position
            let (read, written) = output.withUnsafeMutableBufferPointer { output in
                input.withUnsafeMutableBufferPointer { input in
                    stream.pointee.next_in = input.baseAddress.map { $0 + position }
                    stream.pointee.avail_in = uInt(available)
                    stream.pointee.next_out = output.baseAddress
                    stream.pointee.avail_out = uInt(output.count)
                    status = inflate(stream, Z_NO_FLUSH)
                    return (available - Int(stream.pointee.avail_in), output.count - Int(stream.pointee.avail_out))
                }
            }
            position += read
            if status == Z_STREAM_END { entry = .none }
            if available == 0, written == 0 {
                entry = .none
                throw .system("the archive is cut")
            }
            guard [Z_OK, Z_STREAM_END, Z_BUF_ERROR].contains(status) else {
                entry = .none
                throw .system("its compressed data is damaged")
            }
            if written > 0 { return Array(output[..<written]) }
        }
        return []
    }

    /// Returns so many bytes of the archive, or fewer at its end.
    private func take(_ count: Int) throws(WholeFile.Failure) -> [UInt8] {
        var taken: [UInt8] = []
        while taken.count < count {
            if position == input.count { try readMore() }
            guard position < input.count else { break }
            let end = min(input.count, position + count - taken.count)
            taken += input[position..<end]
            position = end
        }
        return taken
    }

    private func readMore() throws(WholeFile.Failure) {
        inputStart += input.count
        input = try file.next()
        position = 0
    }
}
