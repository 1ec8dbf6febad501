import CGtk4
import ChappieSDK
import ChappieSDKRuntime
import FoundationEssentials

/// The storage for the conversations of one account. It is a folder of that account, encrypted with a key from the
/// credential store, or memory if there is no place for a key.
@MainActor
final class Keeping {
    private var store: any ChappieThreadStore
    private var isReady: Bool
    /// The reason why nothing outlives the window, or `nil` while the conversations are kept.
    private(set) var reason: String?
    /// Whether the conversations should have been kept, so that the user must know the reason.
    private(set) var couldNotKeep = false

    /// - Parameters:
    ///   - keys: the credential store for the key, or `nil` if credentials are not stored.
    ///   - owner: identifies the account among all accounts of its service.
    init(_ keys: ChappieCredentialStorage?, owner: String) {
        store = ChappieInMemoryThreadStore()
        isReady = true
        guard let keys else {
            reason = "They last as long as this window."
            return
        }
        guard let folder = Self.folder(of: owner) else {
            reason = "There is no home folder to keep them in."
            couldNotKeep = true
            return
        }
        store = ChappieFileThreadStore(directory: folder, keys: keys)
        isReady = false
    }

    /// Returns the store for a first turn. Without a key, the conversations stay in memory from then on.
    func readyStore() async -> any ChappieThreadStore {
        guard !isReady, let file = store as? ChappieFileThreadStore else { return store }
        do {
            try await Self.prepare(file)
        } catch {
            // Another turn may have been faster.
            if store is ChappieFileThreadStore {
                store = ChappieInMemoryThreadStore()
                reason = error.explanation
                couldNotKeep = true
            }
        }
        isReady = true
        return store
    }

    @concurrent
    private static func prepare(_ store: ChappieFileThreadStore) async throws(ChappieThreadStoreError) {
        try await store.prepare()
    }

    /// Returns `$XDG_STATE_HOME/chappie/window/DIGEST`, or the same path in `~/.local/state`.
    private static func folder(of owner: String) -> String? {
        let environment = ProcessInfo.processInfo.environment
        let state = environment["XDG_STATE_HOME"].flatMap { $0.hasPrefix("/") ? $0 : nil }
        let home = environment["HOME"].flatMap { $0.hasPrefix("/") ? $0 + "/.local/state" : nil }
        guard let root = state ?? home, let digest = g_compute_checksum_for_string(G_CHECKSUM_SHA256, owner, -1) else {
            return nil
        }
        defer { g_free(digest) }
        return "\(root)/chappie/window/\(String(cString: digest).prefix(32))"
    }

    func lines(_ words: String) async -> KeptLines { await KeptLines.read(store, words) }
}
