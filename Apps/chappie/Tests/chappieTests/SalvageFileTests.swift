@_spi(ChappieInternals) import ChappieFiles
import ChappieRuntime
import ChappieSDK
import FoundationEssentials
import Glibc
import Testing

@_spi(ChappieInternals) @testable import chappie

@Suite struct SalvageFileTests {
    private let folder = TemporaryFolder()
    private let record = ChappieThreadRecord(
        position: 0, kind: .turnStarted, date: Date(timeIntervalSince1970: 1_790_000_000), body: ["turn": "t"])

    @Test(arguments: ["../up", "", "a b", String(repeating: "a", count: 300)])
    func `threads whose IDs are damaged get separate files and IDs`(_ id: String) throws {
        let names = try (0..<3).map { _ in try Threads.Salvage.write([record], of: id, into: folder.path) }
        #expect(names == ["damaged-id.json", "damaged-id-2.json", "damaged-id-3.json"])
        let read = try names.map { name in
            try ChappieThread(json: ChappieJSONValue(parsing: WholeFile.read("\(folder.path)/\(name)")))
        }
        #expect(Set(read.map(\.id)).count == 3)
        for name in names {
            var facts = stat()
            #expect(stat("\(folder.path)/\(name)", &facts) == 0 && facts.st_mode & 0o777 == 0o600)
        }
    }
}
