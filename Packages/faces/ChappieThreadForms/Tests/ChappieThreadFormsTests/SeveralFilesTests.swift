import ChappieClient
@_spi(ChappieInternals) import ChappieCore
import ChappieRuntime
import FoundationEssentials
import TestFixtures
import Testing

@testable import ChappieThreadForms

@Suite struct SeveralFilesTests {
    private let folder: TemporaryDirectory

    init() throws { folder = try TemporaryDirectory() }

    /// Writes a file into the folder, and returns its path.
    @discardableResult private func write(_ name: String, _ bytes: some Sequence<UInt8>) throws -> String {
        let path = folder.path + "/" + name
        let parent = path.split(separator: "/").dropLast().joined(separator: "/")
        try FileManager.default.createDirectory(atPath: "/" + parent, withIntermediateDirectories: true)
        try Data(bytes).write(to: URL(filePath: path))
        return path
    }

    /// Returns an export of ChatGPT with one conversation.
    private func conversations(_ id: String) -> [UInt8] {
        let question: ChappieJSON = ["author": ["role": "user"], "content": ["parts": ["Name a tree."]]]
        let answer: ChappieJSON = ["author": ["role": "assistant"], "content": ["parts": ["An oak."]]]
        let conversation: ChappieJSON = [
            "conversation_id": .string(id), "create_time": 1_760_000_000, "current_node": "a",
            "mapping": ["q": ["message": question], "a": ["parent": "q", "message": answer]],
        ]
        return ChappieJSON.array([conversation]).serializedBytes()
    }

    private func thread(_ id: String) throws -> ChappieThread {
        try #require(try ChappieThreadImport(conversations(id)).threads.first)
    }

    /// Returns a zip archive of files that are stored without compression.
    static func archive(_ files: [(name: String, flags: UInt8, method: UInt8, bytes: [UInt8])]) -> [UInt8] {
        func number(_ value: Int, _ length: Int) -> [UInt8] { (0..<length).map { UInt8(value >> (8 * $0) & 0xFF) } }
        var archive: [UInt8] = []
        for file in files {
            archive += [0x50, 0x4B, 3, 4, 20, 0, file.flags, 0, file.method, 0] + [UInt8](repeating: 0, count: 8)
            archive += number(file.bytes.count, 4) + number(file.bytes.count, 4) + number(file.name.utf8.count, 2)
            archive += [0, 0] + Array(file.name.utf8) + file.bytes
        }
        return archive + [0x50, 0x4B, 1, 2]
    }

    // MARK: Folders

    @Test func `a folder gives the threads of all its files and names the others`() throws {
        try write("a/conversations-000.json", conversations("one"))
        try write("a/conversations-001.json", conversations("two"))
        try write("b/three.json", ChappieThreadFormat.json.text(of: try thread("three")).utf8)
        try write("b/four.jsonl", ChappieThreadFormat.jsonl.text(of: try thread("four")).utf8)
        try write("c/export.zip", Self.archive([("x/conversations.json", 0, 0, conversations("five"))]))
        for name in ["1.png", "2.png", "user.json"] { try write("a/" + name, "{}".utf8) }
        try write("d/rollout-1.jsonl", "{\"timestamp\":".utf8)
        var reader = try ChappieThreadReader(path: folder.path)
        var ids: [String] = []
        while let thread = try reader.next() { ids.append(thread.id) }
        #expect(ids == ["one", "two", "four", "three", "five"])
        #expect(reader.leftOut["file of another kind *.png"] == 2)
        #expect(reader.leftOut["file of another kind a/user.json"] == 1)
        #expect(reader.leftOut.keys.contains { $0.hasPrefix("unreadable file d/rollout-1.jsonl, because ") })
        #expect(reader.leftOut.count == 3 && reader.hasDamage)
    }

    @Test func `files of another kind are no damage, and a file without threads is named`() throws {
        try write("conversations.json", conversations("one"))
        try write("chat.html", "<html>".utf8)
        try write("shared_conversations.json", #"[{"id":"1","conversation_id":"1","title":"A"}]"#.utf8)
        try write("empty.json", "[]".utf8)
        var reader = try ChappieThreadReader(path: folder.path)
        #expect(try reader.next()?.id == "one")
        #expect(try reader.next() == nil)
        #expect(
            reader.leftOut == [
                "file of another kind *.html": 1, "file without threads empty.json": 1,
                "file of another kind shared_conversations.json": 1,
            ])
        #expect(!reader.hasDamage)
    }

    @Test func `a file that cannot be opened costs no other one`() throws {
        try write("conversations.json", conversations("one"))
        try FileManager.default.createSymbolicLink(atPath: folder.path + "/a.json", withDestinationPath: "gone")
        var reader = try ChappieThreadReader(path: folder.path)
        #expect(try reader.next()?.id == "one" && reader.hasDamage)
        #expect(reader.leftOut == ["unreadable file a.json, because there is none": 1])
    }

    // MARK: Exports of this program

    @Test(arguments: [ChappieThreadFormat.json, .jsonl])
    func `an export of all threads in one file is read`(_ format: ChappieThreadFormat) throws {
        let threads = try ["one", "two", "three"].map(thread)
        let path = try write("all", [0xEF, 0xBB, 0xBF] + threads.map(format.text).joined().utf8)
        #expect(try ChappieThreadImport(path: path).threads == threads)
    }

    @Test func `a damaged line of an export costs no other one`() throws {
        let lines = ChappieThreadFormat.jsonl.text(of: try thread("one")).split(separator: "\n").map { String($0) }
        let other = ChappieThreadFormat.jsonl.text(of: try thread("two"))
        for (index, turns) in [(0, 1), (1, 0), (2, 1)] {
            var cut = lines
            cut[index] = String(cut[index].dropLast(9))
            var reader = try ChappieThreadReader(
                path: try write("one.jsonl", (cut.joined(separator: "\n") + "\n" + other).utf8))
            let first = try #require(try reader.next())
            #expect(first.id == "one" && first.turns.count == turns)
            #expect(try reader.next()?.id == "two")
            #expect(try reader.next() == nil)
            #expect(reader.leftOut == ["unreadable line": 1] && reader.hasDamage)
        }
    }

    @Test func `a damaged record of a document costs no other one`() throws {
        var document = try #require(try thread("one").json.object)
        document["records"] = .array([1] + (document["records"]?.array ?? []))
        let read = try ChappieThreadImport(ChappieJSON.object(document).serializedBytes())
        #expect(read.threads.first?.turns.map(\.outputText) == ["An oak."] && read.leftOut == ["damaged record": 1])
    }

    // MARK: Archives and compressed files

    private static let zipped = [
        "UEsDBBQAAAAAACCue11x2uSbDwAAAA8AAAAJAAAAY2hhdC5odG1sPGh0bWw+UEs8L2h0bWw+UEsDBBQAAAAAACCue11PAMSEGwEAABsBAAAdAAAAZXhwb3J0L2NvbnZlcnNhdGlvbnMtMDAwLmpzb25beyJjb252ZXJzYXRpb25faWQiOiAiemlwcGVkIiwgImNyZWF0ZV90aW1lIjogMTc2MDAwMDAwMCwgImN1cnJlbnRfbm9kZSI6ICJhIiwgIm1hcHBpbmciOiB7InEiOiB7Im1lc3NhZ2UiOiB7ImF1dGhvciI6IHsicm9sZSI6ICJ1c2VyIn0sICJjb250ZW50IjogeyJwYXJ0cyI6IFsiTmFtZSBhIGNvbG91ci4iXX19fSwgImEiOiB7InBhcmVudCI6ICJxIiwgIm1lc3NhZ2UiOiB7ImF1dGhvciI6IHsicm9sZSI6ICJhc3Npc3RhbnQifSwgImNvbnRlbnQiOiB7InBhcnRzIjogWyJCbHVlLiJdfX19fX1dUEsDBBQAAAAAACCue11Dv6ajAgAAAAIAAAAJAAAAdXNlci5qc29ue31QSwECFAMUAAAAAAAgrntdcdrkmw8AAAAPAAAACQAAAAAAAAAAAAAAgAEAAAAAY2hhdC5odG1sUEsBAhQDFAAAAAAAIK57XU8AxIQbAQAAGwEAAB0AAAAAAAAAAAAAAIABNgAAAGV4cG9ydC9jb252ZXJzYXRpb25zLTAwMC5qc29uUEsBAhQDFAAAAAAAIK57XUO/pqMCAAAAAgAAAAkAAAAAAAAAAAAAAIABjAEAAHVzZXIuanNvblBLBQYAAAAAAwADALkAAAC1AQAAAAA=",
        "UEsDBBQAAAAIACCue11x2uSbDQAAAA8AAAAJAAAAY2hhdC5odG1ss8koyc2xC/C20QczAFBLAwQUAAAACAAgrntdTwDEhKAAAAAbAQAAHQAAAGV4cG9ydC9jb252ZXJzYXRpb25zLTAwMC5qc29ufY1BCgIxDEWvMmQtohsFlx7ACwwyhJkwFqZNTVIXDr27bQeXmkX44f+f168wcniRKJrjMLgJLh28XYw0wa6DUQiNBnOeinE8nw7bVCuJULAh8FQ9wJr3GKMLc7lXeLbtSRVnahqTPViaFF5aKykJ5PqOg5V3zYwopkX1cENPHXYjL5xkD/ecaxa/qa1QSBX9H4SqTg1L4TftuiTaIDnfP1BLAwQUAAAACAAgrntdQ7+mowQAAAACAAAACQAAAHVzZXIuanNvbquuBQBQSwECFAMUAAAACAAgrntdcdrkmw0AAAAPAAAACQAAAAAAAAAAAAAAgAEAAAAAY2hhdC5odG1sUEsBAhQDFAAAAAgAIK57XU8AxISgAAAAGwEAAB0AAAAAAAAAAAAAAIABNAAAAGV4cG9ydC9jb252ZXJzYXRpb25zLTAwMC5qc29uUEsBAhQDFAAAAAgAIK57XUO/pqMEAAAAAgAAAAkAAAAAAAAAAAAAAIABDwEAAHVzZXIuanNvblBLBQYAAAAAAwADALkAAAA6AQAAAAA=",
        "UEsDBBQACAAIACCue10AAAAAAAAAAAAAAAAJAAAAY2hhdC5odG1ss8koyc2xC/C20QczAFBLBwhx2uSbDQAAAA8AAABQSwMEFAAIAAgAIK57XQAAAAAAAAAAAAAAAB0AAABleHBvcnQvY29udmVyc2F0aW9ucy0wMDAuanNvbn2NQQoCMQxFrzJkLaIbBZcewAsMMoSZMBamTU1SFw69u20Hl5pF+OH/n9evMHJ4kSia4zC4CS4dvF2MNMGug1EIjQZznopxPJ8O21QriVCwIfBUPcCa9xijC3O5V3i27UkVZ2oakz1YmhReWispCeT6joOVd82MKKZF9XBDTx12Iy+cZA/3nGsWv6mtUEgV/R+Eqk4NS+E37bok2iA53z9QSwcITwDEhKAAAAAbAQAAUEsDBBQACAAIACCue10AAAAAAAAAAAAAAAAJAAAAdXNlci5qc29uq64FAFBLBwhDv6ajBAAAAAIAAABQSwECFAMUAAgACAAgrntdcdrkmw0AAAAPAAAACQAAAAAAAAAAAAAAgAEAAAAAY2hhdC5odG1sUEsBAhQDFAAIAAgAIK57XU8AxISgAAAAGwEAAB0AAAAAAAAAAAAAAIABRAAAAGV4cG9ydC9jb252ZXJzYXRpb25zLTAwMC5qc29uUEsBAhQDFAAIAAgAIK57XUO/pqMEAAAAAgAAAAkAAAAAAAAAAAAAAIABLwEAAHVzZXIuanNvblBLBQYAAAAAAwADALkAAABqAQAAAAA=",
    ]

    @Test(arguments: zipped)
    func `a zip archive of an export is read`(_ archive: String) throws {
        let path = folder.path + "/export.zip"
        let bytes = try #require(Data(base64Encoded: archive))
        try bytes.write(to: URL(filePath: path))
        let read = try ChappieThreadImport(path: path)
        #expect(read.threads.map(\.id) == ["zipped"] && read.threads.first?.turns.map(\.outputText) == ["Blue."])
        #expect(read.leftOut == ["file of another kind *.html": 1, "file of another kind user.json": 1])
        for length in stride(from: 4, to: bytes.count - 400, by: 7) {
            try bytes.prefix(length).write(to: URL(filePath: path))
            var reader = try ChappieThreadReader(path: path)
            #expect(throws: ChappieThreadImportError.self) { while try reader.next() != nil {} }
        }
    }

    @Test func `a session that zstd compressed is read`() throws {
        let session =
            "KLUv/WBfAFUFAPLJHx5gNW4DgF+/kYmITGkg3sKvEZSQS47gX1TJRBXMcDzFe8jDwXbTmmnzMivysCn1A6LUA++kG8cWACVs9mZNYc6NaswDlPlrvTc5s+b4zFO8h8sFFHW4+KCEizblqNP+Slhb5vOd04gEmMhMmcmQCEIaRxqFIw9ECd3S5q9tfAIPAAn7BsKWIwODfEWCUQFNtX7GSIx7CLUMqRfQCv2sKlGJvzPSRqDK"
        let path = folder.path + "/rollout-1.jsonl.zst"
        let bytes = try #require(Data(base64Encoded: session))
        try bytes.write(to: URL(filePath: path))
        let thread = try #require(try ChappieThreadImport(path: path).threads.first)
        #expect(thread.id == "packed" && thread.turns.map(\.outputText) == ["Hi."])
        try (bytes.prefix(6) + [0xFF, 0xFF, 0xFF, 0xFF]).write(to: URL(filePath: path))
        #expect(throws: ChappieThreadImportError.self) { try ChappieThreadImport(path: path) }
    }

    @Test func `a session whose compressed data is cut keeps what was read`() throws {
        let session =
            "KLUv/WBfAFUFAPLJHx5gNW4DgF+/kYmITGkg3sKvEZSQS47gX1TJRBXMcDzFe8jDwXbTmmnzMivysCn1A6LUA++kG8cWACVs9mZNYc6NaswDlPlrvTc5s+b4zFO8h8sFFHW4+KCEizblqNP+Slhb5vOd04gEmMhMmcmQCEIaRxqFIw9ECd3S5q9tfAIPAAn7BsKWIwODfEWCUQFNtX7GSIx7CLUMqRfQCv2sKlGJvzPSRqDK"
        let bytes = try #require(Data(base64Encoded: session))
        // A complete frame, and the beginning of another one.
        var reader = try ChappieThreadReader(path: try write("rollout-1.jsonl.zst", bytes + bytes.prefix(20)))
        #expect(try reader.next()?.turns.map(\.outputText) == ["Hi."])
        #expect(reader.leftOut == ["rest of the file, because its compressed data is cut": 1] && reader.hasDamage)
    }

    @Test func `an archive names the files that it cannot read`() throws {
        let files: [(String, UInt8, UInt8, [UInt8])] = [
            ("folder/", 0, 0, []), ("secret.json", 1, 8, [1, 2, 3]), ("odd.json", 0, 12, [1, 2, 3]),
            ("damaged.json", 0, 8, [0xFF, 0xFF, 0xFF]), ("conversations.json", 0, 0, conversations("one")),
        ]
        var reader = try ChappieThreadReader(path: try write("export.zip", Self.archive(files)))
        #expect(try reader.next()?.id == "one")
        #expect(try reader.next() == nil)
        #expect(
            reader.leftOut == [
                "unreadable file secret.json, because it is encrypted. Unpack the archive first": 1,
                "unreadable file odd.json, because it has an unknown form. Unpack the archive first": 1,
                "unreadable file damaged.json, because its compressed data is damaged": 1,
            ])
    }
}
