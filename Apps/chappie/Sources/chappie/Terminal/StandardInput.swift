@_spi(ChappieInternals) import ChappieCore
import ChappieSDK
import Dispatch
import Glibc

/// Runs `work`, which blocks, on a thread of its own.
///
/// - Throws: whatever `work` throws; `CancellationError` to a caller that is cancelled, which does not wait for the work.
func onThread<Value: Sendable>(_ work: @escaping @Sendable () throws -> Value) async throws -> Value {
    let promise = Promise<Value>()
    DispatchQueue(label: "chappie.blocking").async { promise.fulfil(Result { try work() }) }
    return try await promise.value()
}

/// Standard input, read on a thread of its own, so that Ctrl-C is noticed while nothing comes.
struct StandardInput {
    enum Kind { case closed, terminal, pipe, file }

    private let descriptor: CInt
    private var buffer: [UInt8] = []
    private var isAtEnd = false

    init(descriptor: CInt = STDIN_FILENO) { self.descriptor = descriptor }

    var kind: Kind {
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { return .closed }
        if isatty(descriptor) == 1 { return .terminal }
        let format = status.st_mode & S_IFMT
        return format == S_IFIFO || format == S_IFSOCK ? .pipe : .file
    }

    /// Whether there is a byte, or the end, to read within that time.
    func isReady(withinMilliseconds milliseconds: CInt) async throws -> Bool {
        try await onThread { [descriptor] in
            var poller = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            return poll(&poller, 1, milliseconds) > 0
        }
    }

    /// Everything up to the end of the file, without its last line feed.
    ///
    /// - Throws: ``CommandLineError`` past 16 MiB and for bytes that are not UTF-8; `CancellationError`.
    mutating func readToEnd() async throws -> String {
        while !isAtEnd { try await readMore() }
        let text = try text(of: buffer[...])
        buffer = []
        return text.hasSuffix("\n") ? String(text.dropLast()) : text
    }

    /// The next line without its ending; `nil` at the end of the file. It throws as ``readToEnd()`` does.
    mutating func readLine() async throws -> String? {
        while true {
            if let end = buffer.firstIndex(of: UInt8(ascii: "\n")) {
                let line = try text(of: buffer[..<end])
                buffer.removeSubrange(...end)
                return line.hasSuffix("\r") ? String(line.dropLast()) : line
            }
            if isAtEnd {
                defer { buffer = [] }
                return buffer.isEmpty ? nil : try text(of: buffer[...])
            }
            try await readMore()
        }
    }

    private mutating func readMore() async throws {
        let piece = try await onThread { [descriptor] in
            if let piece = readPiece(of: descriptor) { return piece }
            throw CommandLineError.usage("Standard input can't be read: \(String(cString: strerror(errno))).")
        }
        isAtEnd = piece.isEmpty
        buffer += piece
        guard buffer.count <= SmallFile.limit else {
            throw CommandLineError.usage("Standard input is over \(SmallFile.limit >> 20) MiB.")
        }
    }

    private func text(of bytes: ArraySlice<UInt8>) throws -> String {
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw CommandLineError.usage("Standard input is not text in UTF-8.")
        }
        return text
    }
}
