import ChappieSDK
import ChappieSDKRuntime

/// The storage for the conversations of one account. It is the store of the command `chappie` for this account, or
/// memory if there is no place for a key.
@MainActor
final class Keeping {
    private var store: any ChappieThreadStore
    private var isReady: Bool
    /// The reason why nothing outlives the window, or `nil` while the conversations are kept.
    private(set) var reason: String?
    /// Whether the conversations should have been kept, so that the user must know the reason.
    private(set) var couldNotKeep = false

    init(_ settings: LaunchOptions) {
        store = ChappieInMemoryThreadStore()
        isReady = true
        guard let keys = settings.keys else {
            reason = "They last as long as this window."
            return
        }
        // The command `chappie` keeps its conversations under this service.
        var owner = settings.configuration
        owner.keychainService = "com.chappie.cli"
        let file = ChappieFileThreadStore(
            owner: owner.credentialSlot, storagePolicy: settings.threadPolicy, keys: keys)
        guard file.directory != nil else {
            reason = "There is no home folder to keep them in."
            couldNotKeep = true
            return
        }
        store = file
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

    /// Runs `work` with the store outside the window's thread, and then closes the store.
    func use<Output: Sendable>(
        _ work: @concurrent @Sendable (any ChappieThreadStore) async throws -> Output
    ) async throws -> Output {
        do {
            let output = try await work(store)
            await close()
            return output
        } catch {
            await close()
            throw error
        }
    }

    /// Closes the store until its next use, so that the command `chappie` can repair or replace it in the meantime.
    func close() async { await (store as? ChappieFileThreadStore)?.close() }

    /// Whether a path leads into the folder of the conversations.
    func contains(_ path: String) -> Bool {
        guard let folder = (store as? ChappieFileThreadStore)?.directory else { return false }
        return path.hasPrefix(folder + "/")
    }
}
