import CZlib
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
import ChappieRuntime
import FoundationEssentials

#if canImport(CZstd)
    import CZstd

    /// The bytes of a file that zstd compressed, as the Codex CLI does with older sessions. A file that is cut ends
    /// there.
    final class ZstdFile {
        private let file: FilePieces
        private let context: OpaquePointer?
        private var input: [UInt8] = []
        private var position = 0
        /// Whether the library may have more output for the input so far.
        private var isFull = false

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
                    if input.isEmpty { return [] }
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
        /// Bytes as they are in the archive, and their number. Those of an unknown method cannot be read further.
        case stored(Int)
        case deflated
    }

    private let file: FilePieces
    private let stream = UnsafeMutablePointer<z_stream>.allocate(capacity: 1)
    private var input: [UInt8] = []
    private var position = 0
    private var entry = Entry.none

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
        while try !nextPiece().isEmpty {}
        // Facts about an entry may also be behind it.
        var signature: UInt32 = 0
        while signature != 0x504B_0304 {
            guard signature != 0x504B_0102, let byte = try take(1).first else { return nil }
            signature = signature << 8 | UInt32(byte)
        }
        let header = try take(26)
        guard header.count == 26 else { return nil }
        let value = { (place: Int, length: Int) in
            header[place..<place + length].reversed().reduce(0) { $0 << 8 | Int($1) }
        }
        let (flags, method, size) = (value(2, 2), value(4, 2), value(14, 4))
        let name = String(decoding: try take(value(22, 2)), as: UTF8.self)
        _ = try take(value(24, 2))
        // Bit 0 means that the entry is encrypted, and bit 3 that its size is behind it.
        switch (method, flags & 1, flags & 8) {
        case (8, 0, _):
            inflateReset(stream)
            entry = .deflated
        case (_, _, 0) where size < 0xFFFF_FFFF: entry = .stored(size)
        default: throw .system("\(name) in the archive has an unknown form")
        }
        return name
    }

    /// Returns the next bytes of the current file, which are empty at its end.
    func nextPiece() throws(WholeFile.Failure) -> [UInt8] {
        switch entry {
        case .none: return []
        case .stored(let count):
            let piece = try take(min(count, 64 << 10))
            entry = piece.isEmpty ? .none : .stored(count - piece.count)
            return piece
        case .deflated: return try inflated()
        }
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
            // A file that is cut ends here.
            if status == Z_STREAM_END || available == 0 { entry = .none }
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
        input = try file.next()
        position = 0
    }
}

/// The files of a zip archive as the source of threads. ChatGPT sends its export in this form.
struct ZippedExport: ThreadForm {
    let source = ChappieThreadImport.Source.chatGPT
    private let archive: ZipArchive
    private let fileDate: Date
    private var current: (name: String, form: any ThreadForm)?
    private var leftOutBefore = LeftOut()

    var leftOut: LeftOut {
        var all = leftOutBefore
        if let current { all.add(current.form.leftOut) }
        return all
    }

    init(_ file: FilePieces, fileDate: Date) {
        archive = ZipArchive(file)
        self.fileDate = fileDate
    }

    mutating func next() throws(ThreadFault) -> ChappieThread? {
        while true {
            do throws(ThreadFault) {
                if let thread = try current?.form.next() { return thread }
                leftOutBefore = leftOut
            } catch {
                leftOutBefore.add("unreadable file \(current?.name ?? "")")
            }
            current = nil
            let archive = archive
            let name = try ThreadFault.reading { () throws(WholeFile.Failure) in try archive.nextEntry() }
            guard let name else { return nil }
            guard !name.hasSuffix("/") else { continue }
            do throws(ThreadFault) {
                let lines = try ImportLines { () throws(ThreadFault) in
                    try ThreadFault.reading { () throws(WholeFile.Failure) in try archive.nextPiece() }
                }
                let form = try ChappieThreadReader.form(of: lines, fileName: name, fileDate: fileDate)
                current = (name, form)
            } catch {
                leftOutBefore.add("unreadable file \(name)")
            }
        }
    }
}
