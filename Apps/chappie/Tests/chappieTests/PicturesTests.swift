import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
import ChappieSDK
import FoundationEssentials
import Glibc
import Testing

@_spi(ChappieInternals) @testable import chappie

@Suite struct PicturesTests {
    private let folder = TemporaryFolder()

    /// A PNG of one pixel, with `padding` bytes in a chunk that no one reads.
    private func png(padding: Int = 0) throws -> ChappieGeneratedImage {
        let chunk = { (name: String, content: [UInt8]) in
            withUnsafeBytes(of: UInt32(content.count).bigEndian) { Array($0) } + name.utf8 + content + [0, 0, 0, 0]
        }
        let head = chunk("IHDR", [0, 0, 0, 1, 0, 0, 0, 1, 8, 2, 0, 0, 0])
        let rest = chunk("teXt", Array(repeating: 7, count: padding)) + chunk("IDAT", [0]) + chunk("IEND", [])
        let signature: [UInt8] = [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]
        return try #require(ChappieGeneratedImage(bytes: signature + head + rest))
    }

    /// A WebP of one pixel.
    private func webP() throws -> ChappieGeneratedImage {
        let data = "UklGRh4AAABXRUJQVlA4TBEAAAAvAAAAAAfQ//73v/+BiOh/AAA="
        let bytes = try #require(Data(base64Encoded: data))
        return try #require(ChappieGeneratedImage(bytes: Array(bytes)))
    }

    // MARK: The file

    @Test(arguments: [
        ("A red fox in the snow!", "a-red-fox-in-the-snow"), ("../../etc/passwd", "etc-passwd"), ("/", "picture"),
        ("", "picture"), ("..", "picture"), ("-rf *", "rf"), ("\u{1B}[2J\n\u{202E}x", "2j-x"), ("日本", "picture"),
        ("one two three four five six seven eight nine ten eleven", "one-two-three-four-five-six-seven-eight-nine-ten"),
        (String(repeating: "a", count: 300), "picture"), (".hidden", "hidden"),
    ])
    func `a name from a prompt stays in its folder`(_ prompt: String, _ expected: String) {
        #expect(PictureFile.stem(for: prompt) == expected)
    }

    @Test func `a picture never replaces a file, and its extension is that of its format`() throws {
        let outside = ThreadsFolder(path: nil)
        let stem = folder.path + "/fox"
        try Data("mine".utf8).write(to: URL(filePath: stem + ".png"))
        #expect(symlink("/nowhere/fox.png", stem + "-2.png") == 0)
        #expect(try PictureFile.save(png(), as: stem, outside: outside) == stem + "-3.png")
        #expect(try PictureFile.save(webP(), as: stem, outside: outside) == stem + ".webp")
        #expect(try WholeFile.read(stem + ".png") == Array("mine".utf8))
        #expect(try WholeFile.read(stem + "-3.png") == png().bytes)
        #expect(try !FileManager.default.contentsOfDirectory(atPath: folder.path).contains { $0.hasSuffix(".draft") })
        #expect(throws: CommandLineError.self) {
            try PictureFile.save(png(), as: stem, outside: ThreadsFolder(path: folder.path))
        }
        let error = try #require(throws: CommandLineError.self) {
            try PictureFile.save(png(), as: folder.path + "/missing/fox", outside: outside)
        }
        #expect(error.status == .unavailable && error.message.contains("can't be written"))
    }

    // MARK: The terminal

    @Test(
        arguments: [
            (["TERM": "xterm-kitty"], .kitty), (["TERM": "xterm", "KITTY_WINDOW_ID": "1"], .kitty),
            (["TERM": "xterm-ghostty"], .kitty), (["TERM_PROGRAM": "iTerm.app"], .iTerm),
            (["LC_TERMINAL": "iTerm2"], .iTerm), (["TERM_PROGRAM": "WezTerm", "TERM": "xterm"], .iTerm),
            (["TERM": "xterm-kitty", "TMUX": "/tmp/tmux"], nil), (["TERM": "xterm-256color"], nil), ([:], nil),
        ] as [([String: String], TerminalPicture?)])
    func `the environment tells which protocol a terminal has`(
        _ variables: [String: String], _ expected: TerminalPicture?
    ) {
        #expect(TerminalPicture(ProgramEnvironment { variables[$0] }) == expected)
    }

    @Test func `kitty gets a picture in pieces, and only as PNG`() throws {
        let large = try png(padding: 5000)
        let text = try #require(TerminalPicture.kitty.sequence(for: large, columns: 40))
        let commands = text.split(separator: "\u{1B}\\").dropLast()
        #expect(commands.first?.hasPrefix("\u{1B}_Ga=T,f=100,q=2,c=40,m=1;") == true)
        #expect(commands.dropFirst().map { $0.prefix(7) } == ["\u{1B}_Gm=0;"])
        let digits = commands.map { $0.drop { $0 != ";" }.dropFirst() }
        #expect(digits.dropLast().map(\.utf8.count) == [4096])
        #expect(Data(base64Encoded: String(digits.joined())).map(Array.init) == large.bytes)
        #expect(try TerminalPicture.kitty.sequence(for: webP(), columns: 40) == nil)
    }

    @Test func `iTerm2 gets a picture in one command, whatever its format`() throws {
        let picture = try webP()
        let text = try #require(TerminalPicture.iTerm.sequence(for: picture, columns: 40))
        let digits = Data(picture.bytes).base64EncodedString()
        #expect(text == "\u{1B}]1337;File=inline=1;size=38;width=40;preserveAspectRatio=1:\(digits)\u{07}\n")
    }

    @Test(arguments: [
        (1024, 1024, 80, 24, 40), (1024, 1024, 30, 24, 30), (64, 64, 80, 24, 8), (4096, 64, 80, 24, 80),
        (64, 4096, 80, 24, 1), (1024, 1024, 80, 2, 2),
    ])
    func `a picture fits on the screen and is not enlarged`(
        _ width: Int, _ height: Int, _ columns: Int, _ rows: Int, _ expected: Int
    ) {
        #expect(TerminalPicture.columns(forWidth: width, height: height, on: (columns, rows)) == expected)
    }

    // MARK: The search

    @Test func `a result is one line in a pipe, whatever a page calls itself`() {
        let result = ChappieSearchResult(
            title: "Swift\t6.4\n\u{1B}[2J", url: "https://swift.org/\u{202E}blog", excerpt: "One\ttwo\nthree")
        #expect(SearchWeb.line(result) == "Swift 6.4 [2J\thttps://swift.org/\\u{202E}blog\tOne two three")
    }

    @Test func `recency counts whole days`() throws {
        let now = Date(timeIntervalSince1970: 1_795_000_000)
        #expect(try SearchWeb.days(since: "7d", now: now) == 7 && SearchWeb.days(since: "1h", now: now) == 1)
        #expect(throws: CommandLineError.self) { try SearchWeb.days(since: "2999-01-01", now: now) }
        #expect(throws: CommandLineError.self) { try SearchWeb.days(since: "soon", now: now) }
    }
}
