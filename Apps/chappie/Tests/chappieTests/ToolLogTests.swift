import Foundation
import Testing

@testable import chappie

@Suite struct ToolLogTests {
    private let folder = TemporaryFolder()

    private func text() throws -> String {
        String(decoding: try Data(contentsOf: URL(fileURLWithPath: folder.path + "/logs/a.log")), as: UTF8.self)
    }

    @Test func `lines are appended with their time to a file that only this user can open`() throws {
        for line in ["one", "two"] { try ToolLog(of: "a", in: folder.path + "/logs").write(line) }
        let lines = try text().split(separator: "\n")
        #expect(lines.map { $0.split(separator: " ").last } == ["one", "two"])
        let time = #/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z .*/#
        #expect(try lines.allSatisfy { try time.wholeMatch(in: $0) != nil }, "\(lines)")
        let facts = try FileManager.default.attributesOfItem(atPath: folder.path + "/logs/a.log")
        #expect(facts[.posixPermissions] as? Int == 0o600)
    }

    @Test func `a log that is full ends and starts again the next time`() throws {
        let log = try ToolLog(of: "a", in: folder.path + "/logs")
        let line = String(repeating: "x", count: 1 << 20)
        for _ in 1...12 { log.write(line) }
        #expect(try text().hasSuffix("The log ends here: it has 10 MiB.\n"))
        #expect(try text().utf8.count < ToolLog.limit + (1 << 20) + 200)
        try ToolLog(of: "a", in: folder.path + "/logs").write("again")
        #expect(try text().utf8.count < 100)
    }

    @Test func `a file that others can open, a link and a pipe are refused`() throws {
        let path = folder.path + "/a.log"
        #expect(FileManager.default.createFile(atPath: path, contents: nil, attributes: [.posixPermissions: 0o644]))
        #expect(throws: CommandLineError.self) { try ToolLog(of: "a", in: folder.path) }
        try FileManager.default.removeItem(atPath: path)
        try FileManager.default.createSymbolicLink(atPath: path, withDestinationPath: folder.path + "/elsewhere")
        #expect(throws: CommandLineError.self) { try ToolLog(of: "a", in: folder.path) }
        try FileManager.default.removeItem(atPath: path)
        try #require(mkfifo(path, 0o600) == 0)
        #expect(throws: CommandLineError.self) { try ToolLog(of: "a", in: folder.path) }
    }
}
