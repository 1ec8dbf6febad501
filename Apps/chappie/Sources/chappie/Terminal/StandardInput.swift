@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
import ChappieLineEditor
import ChappieSDK
import Dispatch
import Glibc

/// Runs `work`, which blocks, on a separate thread.
///
/// - Throws: the error of `work`. A caller that is cancelled receives `CancellationError` and does not wait for the
///   work.
func onThread<Value: Sendable>(_ work: @escaping @Sendable () throws -> Value) async throws -> Value {
    let promise = Promise<Value>()
    DispatchQueue(label: "chappie.blocking").async { promise.fulfil(Result { try work() }) }
    return try await promise.value()
}

/// Standard input, which is read on a separate thread so that Ctrl-C is noticed while no input arrives.
struct StandardInput {
    enum Kind { case closed, terminal, pipe, socket, file }

    /// The file, or `nil` if there is none.
    private let file: Descriptor?
    private var buffer: [UInt8] = []
    /// The index in the buffer at which the next line begins. No line ends before the index `searched`.
    private var start = 0
    private var searched = 0
    private var isAtEnd = false

    init(_ file: Descriptor? = .standardInput) { self.file = file }

    var kind: Kind {
        guard let file, let status = try? file.status() else { return .closed }
        if isatty(file.number) == 1 { return .terminal }
        return switch status.st_mode & S_IFMT {
        case S_IFIFO: .pipe
        case S_IFSOCK: .socket
        default: .file
        }
    }

    /// Whether the user has given a pipe or a file to read. `/dev/null` and other devices do not count.
    var isGiven: Bool {
        guard let file, let status = try? file.status() else { return false }
        return [S_IFIFO, S_IFSOCK, S_IFREG].contains(status.st_mode & S_IFMT)
    }

    /// Returns whether a byte or the end can be read within that time.
    func isReady(within limit: Duration) async throws -> Bool {
        if start < buffer.count { return true }
        return try await onThread { [file] in file?.wait(for: POLLIN, limit: limit) ?? false }
    }

    /// Returns everything up to the end of the file, without its last line feed.
    ///
    /// - Throws: ``CommandLineError`` for more than 16 MiB and for bytes that are not UTF-8, or `CancellationError`.
    mutating func readToEnd() async throws -> String {
        while !isAtEnd { try await readMore() }
        let text = try takeText(upTo: buffer.count)
        return text.hasSuffix("\n") ? String(text.dropLast()) : text
    }

    /// Returns all bytes up to the end of the file.
    ///
    /// - Throws: ``CommandLineError`` for more than 16 MiB, or `CancellationError`.
    mutating func readBytes() async throws -> [UInt8] {
        while !isAtEnd { try await readMore() }
        return buffer
    }

    /// Returns the next line without its ending, or `nil` at the end of the file. Throws the same errors as
    /// ``readToEnd()``.
    mutating func readLine() async throws -> String? {
        guard let end = try await findLineEnd() else { return nil }
        let line = try takeText(upTo: end)
        passLineFeed()
        return line.hasSuffix("\r") ? String(line.dropLast()) : line
    }

    /// Returns the next line as bytes without its line feed, or `nil` at the end of the file. Of a line of more than 8
    /// MiB, only the beginning is returned.
    ///
    /// - Throws: ``CommandLineError`` if the file can't be read, or `CancellationError`.
    mutating func readMessage() async throws -> [UInt8]? {
        var head: [UInt8]?
        while true {
            if let end = try await findLineEnd(within: WholeFile.limit / 2) {
                let line = Array(buffer[start..<end])
                start = end
                searched = end
                passLineFeed()
                return head ?? line
            }
            guard !isAtEnd else { return head }
            // The line is too long to be a message.
            head = head ?? Array(buffer[start...].prefix(100))
            start = buffer.count
            searched = start
        }
    }

    /// Returns the index of the end of the next line, or `nil` at the end of the file.
    private mutating func findLineEnd(within limit: Int = .max) async throws -> Int? {
        while true {
            if let end = buffer[searched...].firstIndex(of: UInt8(ascii: "\n")) { return end }
            searched = buffer.count
            if isAtEnd { return start == buffer.count ? nil : buffer.count }
            guard searched - start <= limit else { return nil }
            try await readMore()
        }
    }

    private mutating func passLineFeed() {
        if start < buffer.count { start += 1 }
        searched = start
    }

    private mutating func readMore() async throws {
        let piece = try await onThread { [file] in
            TerminalState.obeysJobControl()
            do {
                return try file?.read() ?? []
            } catch {
                throw CommandLineError.usage("Standard input can't be read: \(error).")
            }
        }
        isAtEnd = piece.isEmpty
        // The lines that were read are removed together, because removing each line would move all bytes after it.
        buffer.removeFirst(start)
        searched -= start
        start = 0
        buffer += piece
        guard buffer.count <= WholeFile.limit else {
            throw CommandLineError.usage("Standard input is larger than \(WholeFile.limit >> 20) MiB.")
        }
    }

    private mutating func takeText(upTo end: Int) throws -> String {
        guard let text = String(validating: buffer[start..<end], as: UTF8.self) else {
            throw CommandLineError.usage("Standard input is not text in UTF-8.")
        }
        start = end
        searched = end
        return text
    }
}
