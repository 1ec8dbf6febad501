import FoundationEssentials
import Glibc
import Testing

@testable import chappie

@Suite struct FilesTests {
    private let folder = TemporaryFolder()

    @Test func aDraftOfTheSameProcessIDDoesNotBlockTheSettings() throws {
        let path = folder.path + "/settings.json"
        #expect(PrivateFile.create("\(path).\(getpid())", with: [1]))
        #expect(PrivateFile.replace(path, with: [2]))
        #expect(try SmallFile.read(path) == [2])
    }
}

/// A folder that goes away with the test.
final class TemporaryFolder {
    let path: String

    init() {
        var template = Array(
            (String(cString: getenv("TMPDIR") ?? strdup("/tmp")) + "/chappie-tests.XXXXXX").utf8CString)
        path = mkdtemp(&template).map { String(cString: $0) } ?? "/nonexistent"
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }
}
