@_spi(ChappieInternals) import ChappieFiles
@_spi(ChappieInternals) import ChappieProcess
import ChappieSDK
import Dispatch
import FoundationEssentials
import Glibc
import Synchronization

@testable import chappie

/// A folder that goes away with the test.
final class TemporaryFolder {
    let path: String

    init() {
        let parent = ProgramEnvironment.process["TMPDIR"] ?? "/tmp"
        var template = Array("\(parent)/chappie-tests.XXXXXX".utf8CString)
        path = mkdtemp(&template).map { String(cString: $0) } ?? "\(parent)/missing"
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    /// An environment with this folder as the home, and `variables`.
    func environment(_ variables: [String: String] = [:]) -> ProgramEnvironment {
        let all = ["HOME": path].merging(variables) { _, new in new }
        return ProgramEnvironment { all[$0] }
    }
}

/// A console whose text the test can read, as `out:` and `err:` pieces in the order of the writes.
final class Recorder: Sendable {
    private let written = Mutex<[(Console.Stream, String)]>([])

    func console(_ terminals: Console.Terminals = .init()) -> Console {
        Console(terminals) { stream, bytes in
            self.written.withLock { $0.append((stream, String(decoding: bytes, as: UTF8.self))) }
        }
    }

    func text(of stream: Console.Stream) -> String {
        written.withLock { $0.filter { $0.0 == stream }.map(\.1).joined() }
    }

    var streams: [Console.Stream] { written.withLock { $0.map(\.0) } }
}

/// The reading end of a pipe that holds `bytes` and then ends.
func pipeHolding(_ bytes: [UInt8]) throws -> Descriptor {
    let (reader, writer) = try Descriptor.pipe()
    try writer.write(bytes)
    return reader
}
