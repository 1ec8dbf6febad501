import Synchronization

/// A queue of byte chunks that can be emptied from any thread.
final class ChunkList: Sendable {
    private let rest: Mutex<ArraySlice<[UInt8]>>

    init(_ chunks: [[UInt8]]) { rest = Mutex(chunks[...]) }

    func removeFirst() -> [UInt8]? { rest.withLock { $0.popFirst() } }
}
