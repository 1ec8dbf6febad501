import ChappieSDK
import Glibc

/// Standard input, read in steps so that Ctrl-C is noticed while nothing comes.
struct StandardInput {
    enum Kind { case closed, terminal, pipe, file }

    static let limit = 16 << 20

    private var buffer: [UInt8] = []
    private var isAtEnd = false

    static var kind: Kind {
        var status = stat()
        guard fstat(STDIN_FILENO, &status) == 0 else { return .closed }
        if Terminal.inputIsTerminal { return .terminal }
        let format = status.st_mode & S_IFMT
        return format == S_IFIFO || format == S_IFSOCK ? .pipe : .file
    }

    /// Whether there is a byte, or the end, to read.
    static func isReady(withinMilliseconds milliseconds: Int32) throws -> Bool {
        try Task.checkCancellation()
        var poller = pollfd(fd: STDIN_FILENO, events: Int16(POLLIN), revents: 0)
        return poll(&poller, 1, milliseconds) > 0
    }

    /// Everything up to the end of the file, without its last line feed.
    ///
    /// - Throws: ``CommandLineError`` past 16 MiB and for bytes that are not UTF-8; `CancellationError`.
    mutating func readToEnd() throws -> String {
        while !isAtEnd { try readMore() }
        let text = try text(of: buffer[...])
        buffer = []
        return text.hasSuffix("\n") ? String(text.dropLast()) : text
    }

    /// The next line without its ending; `nil` at the end of the file.
    mutating func readLine() throws -> String? {
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
            try readMore()
        }
    }

    private mutating func readMore() throws {
        guard try Self.isReady(withinMilliseconds: 100) else { return }
        var chunk = [UInt8](repeating: 0, count: 64 << 10)
        let count = read(STDIN_FILENO, &chunk, chunk.count)
        switch count {
        case 0: isAtEnd = true
        case ..<0:
            if errno == EINTR || errno == EAGAIN { return }
            throw CommandLineError.usage("Standard input can't be read: \(String(cString: strerror(errno))).")
        default:
            buffer += chunk[..<count]
            if buffer.count > Self.limit {
                throw CommandLineError.usage("Standard input is over \(Self.limit >> 20) MiB.")
            }
        }
    }

    private func text(of bytes: ArraySlice<UInt8>) throws -> String {
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw CommandLineError.usage("Standard input is not text in UTF-8.")
        }
        return text
    }
}
