import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
import ChappieSDK
import FoundationEssentials
import Glibc
import HTTPTypes
import Synchronization
import Testing

@_spi(ChappieInternals) @testable import chappie

@Suite struct OutputFileTests {
    private let folder = TemporaryFolder()
    private var path: String { folder.path + "/answer.txt" }

    private let outside = ThreadsFolder(path: nil)

    private func names() throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted()
    }
    private func text(_ path: String) throws -> String { String(decoding: try WholeFile.read(path), as: UTF8.self) }

    @Test func nothingIsThereUntilAllOfItIs() async throws {
        let file = try OutputFile(path, outside: outside)
        #expect(access(path, F_OK) != 0)
        try await file.write("new\n")
        #expect(try text(path) == "new\n" && names() == ["answer.txt"])
    }

    @Test func whatIsNotWrittenLeavesNothingBehind() throws {
        try Data("old".utf8).write(to: URL(filePath: path))
        do { _ = try OutputFile(path, outside: outside) }
        #expect(try text(path) == "old" && names() == ["answer.txt"])
    }

    @Test func `a file that must not be replaced is refused, also if it appears later`() async throws {
        let late = try await #require(throws: CommandLineError.self) {
            let early = try OutputFile(path, outside: outside, replaces: false)
            try Data("old".utf8).write(to: URL(filePath: path))
            try await early.write("new")
        }
        let refused = try #require(throws: CommandLineError.self) {
            _ = try OutputFile(path, outside: outside, replaces: false)
        }
        #expect(late.message == refused.message && late.suggestion?.contains("--force") == true)
        #expect(try text(path) == "old" && names() == ["answer.txt"])
    }

    @Test func aFileKeepsItsModeAndALinkItsTarget() async throws {
        try Data("old".utf8).write(to: URL(filePath: path))
        #expect(chmod(path, 0o640) == 0 && symlink("answer.txt", folder.path + "/link") == 0)
        try await OutputFile(folder.path + "/link", outside: outside).write("new")
        var facts = stat()
        #expect(lstat(folder.path + "/link", &facts) == 0 && facts.st_mode & S_IFMT == S_IFLNK)
        #expect(try lstat(path, &facts) == 0 && facts.st_mode & 0o777 == 0o640 && text(path) == "new")
    }

    @Test func aDeviceIsWrittenAsItIs() async throws {
        try await OutputFile("/dev/null", outside: outside).write("gone")
        let error = try await #require(throws: CommandLineError.self) {
            try await OutputFile("/dev/full", outside: outside).write("lost")
        }
        #expect(error.status == .unavailable && error.message.contains("No space left"))
    }

    @Test func `a link whose target is missing stays, and its target is written`() async throws {
        #expect(symlink("answer.txt", folder.path + "/link") == 0 && symlink("link", folder.path + "/longer") == 0)
        try await OutputFile(folder.path + "/longer", outside: outside).write("new")
        #expect(try text(path) == "new" && names() == ["answer.txt", "link", "longer"])
    }

    @Test func `a named pipe is written and stays`() async throws {
        #expect(mkfifo(path, 0o600) == 0)
        let read = Task.detached { [path] in try WholeFile.contents(of: path, kind: .any) }
        try await OutputFile(path, outside: outside).write("new")
        #expect(try await read.value == Array("new".utf8))
        var facts = stat()
        #expect(stat(path, &facts) == 0 && facts.st_mode & S_IFMT == S_IFIFO)
    }

    @Test func `an open file is written at its end and not replaced`() async throws {
        try Data("old ".utf8).write(to: URL(filePath: path))
        let number = open(path, O_WRONLY | O_APPEND)
        defer { close(number) }
        #expect(symlink("/proc/self/fd/\(number)", folder.path + "/link") == 0)
        try await OutputFile(folder.path + "/link", outside: outside).write("new")
        #expect(try text(path) == "old new")
    }

    @Test func `a killed writer's draft is removed by the next write`() async throws {
        try Data("half".utf8).write(to: URL(filePath: path + ".0123456789abcdef.draft"))
        try await OutputFile(path, outside: outside).write("new")
        #expect(try names() == ["answer.txt"])
    }

    @Test(arguments: ["threads/a/threads.db", "link/threads.db", "to-file", "threads/../threads/new", "dangling"])
    func `no file is written in the folder of the kept threads`(_ name: String) throws {
        let store = folder.path + "/threads"
        try FileManager.default.createDirectory(atPath: store + "/a", withIntermediateDirectories: true)
        try Data("all".utf8).write(to: URL(filePath: store + "/a/threads.db"))
        #expect(symlink("threads/a", folder.path + "/link") == 0)
        #expect(symlink("threads/a/threads.db", folder.path + "/to-file") == 0)
        #expect(symlink(store + "/a/new", folder.path + "/dangling") == 0)
        let error = #expect(throws: CommandLineError.self) {
            try OutputFile("\(folder.path)/\(name)", outside: ThreadsFolder(path: store))
        }
        #expect(error?.status == .usage && error?.message.contains("the kept threads") == true)
        #expect(try text(store + "/a/threads.db") == "all")
        _ = try OutputFile(path, outside: ThreadsFolder(path: store))
    }

    @Test(arguments: [("", "Is a directory"), ("/none/answer", "No such file"), ("/plain/answer", "Not a directory")])
    func aPathThatCannotBeWrittenIsSaidAtOnce(_ name: String, _ says: String) throws {
        try Data().write(to: URL(filePath: folder.path + "/plain"))
        let error = try #require(throws: CommandLineError.self) { try OutputFile(folder.path + name, outside: outside) }
        #expect(error.status == .usage && error.message.contains(says), "\(error.message)")
    }
}

@Suite struct AttachmentTests {
    private typealias Attachment = chappie.Attachment
    private let folder = TemporaryFolder()

    /// An address's answers, in turn.
    private final class Answers: HTTPTransport {
        private let all: Mutex<[HTTPExchangeResponse]>

        init(_ all: [HTTPExchangeResponse]) { self.all = Mutex(all) }

        func send(_ request: HTTPExchangeRequest) async throws -> HTTPExchangeResponse {
            #expect(request.headerFields[.authorization] == nil)
            return all.withLock { $0.removeFirst() }
        }
    }

    private func file(_ name: String, _ answers: HTTPExchangeResponse...) async throws -> [ChappieInputMessage.Part] {
        try await Attachment.file(name, Answers(answers), Recorder().console())
    }

    @Test func `text goes into the message, and other files are attached to it`() async throws {
        let path = folder.path + "/notes.md"
        try Data("hello".utf8).write(to: URL(filePath: path))
        #expect(try await file(path) == [.text("<document name=\"notes.md\">\nhello\n</document>\n\n")])
        #expect(try await file(folder.path) == file(path))
        try Data("%PDF-\0".utf8).write(to: URL(filePath: path))
        #expect(try await file(path) == [.file(ChappieFile(bytes: Array("%PDF-\0".utf8), name: "notes.md"))])
        await #expect(throws: CommandLineError.self) { try await file(folder.path) }
    }

    @Test func anAddressIsReadAndFollowed() async throws {
        let moved = HTTPExchangeResponse(status: .found, headerFields: [.location: "/b"])
        let page = HTTPExchangeResponse(status: .ok, body: HTTPBody(bytes: Array("hi\n".utf8)))
        let text = ChappieInputMessage.Part.text("<document name=\"https://x.example/a\">\nhi\n</document>\n\n")
        #expect(try await file("https://x.example/a", moved, page) == [text])
        let gone = HTTPExchangeResponse(status: .notFound, body: HTTPBody(bytes: Array("no".utf8)))
        for answers in [[gone], Array(repeating: moved, count: 6)] {
            let error = await #expect(throws: CommandLineError.self) {
                try await Attachment.file(
                    "https://x.example/a", Answers(answers), Recorder().console())
            }
            #expect(error?.status == .unavailable && error?.message.contains("https://x.example/a") == true)
        }
        let large = HTTPExchangeResponse(
            status: .ok, body: HTTPBody(bytes: Array(repeating: 0x61, count: WholeFile.limit + 1)))
        await #expect(throws: CommandLineError.self) { try await file("https://x.example/a", large) }
        await #expect(throws: CommandLineError.self) { try await file("https://") }
    }

    @Test func imagesAreFilesOrAddresses() async throws {
        let path = folder.path + "/a"
        try Data("GIF89a".utf8).write(to: URL(filePath: path))
        #expect(try await Attachment.image(path) == .image(ChappieImage(bytes: Array("GIF89a".utf8))))
        #expect(try await Attachment.image("https://x.example/a.png") == .imageURL("https://x.example/a.png"))
        #expect(
            try await Attachment.image("data:image/gif;base64,R0lGODlh") == .imageURL("data:image/gif;base64,R0lGODlh"))
        await #expect(throws: ChappieAttachmentError.notFound("none.png")) { try await Attachment.image("none.png") }
        await #expect(throws: CommandLineError.self) { try await Attachment.image("https://[") }
    }
}

@Suite struct SchemaOptionTests {
    private let folder = TemporaryFolder()
    private static let text = #"{"type":"object","properties":{"town":{"type":"string"}},"required":["town"]}"#

    @Test func aSchemaIsAFileOrTheArgumentItself() throws {
        let path = folder.path + "/schema.json"
        try Data(Self.text.utf8).write(to: URL(filePath: path))
        #expect(try MessageOptions.schema(path) == MessageOptions.schema(Self.text))
    }

    @Test(arguments: ["{", #"{"type":"town"}"#, #"{"nullable":true}"#])
    func whatIsNoSchemaIsWrongUsage(_ text: String) throws {
        let error = try #require(throws: CommandLineError.self) { try MessageOptions.schema(text) }
        #expect(error.status == .usage && error.message.count > 30, "\(error.message)")
    }

    @Test(arguments: [("town: Bonn", ""), (#"{"town":7}"#, "/town"), ("{}", ""), ("", "")])
    func `an answer that violates its schema is an error with the location`(_ answer: String, _ path: String) throws {
        let schema = try MessageOptions.schema(Self.text)
        try Ask.check(#"{"town":"Bonn"}"#, against: schema)
        do {
            try Ask.check(answer, against: schema)
            Issue.record("it was taken to fit")
        } catch ChappieClientError.invalidStructuredOutput(let violation, let text) {
            #expect(violation.path == path && text == answer)
        }
    }
}
