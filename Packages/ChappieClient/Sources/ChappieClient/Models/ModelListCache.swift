import ChappieAuth
import ChappieCore

/// The model list of one account and the tag it came with.
struct ModelListCache: Sendable {
    private struct Entry {
        let account: ChappieAccountInfo
        let tag: String
        let models: [ChappieModel]
    }

    private var entry: Entry?

    func tag(for account: ChappieAccountInfo) -> String? { entry(for: account)?.tag }
    func models(for account: ChappieAccountInfo) -> [ChappieModel]? { entry(for: account)?.models }

    mutating func store(_ models: [ChappieModel], tag: String?, for account: ChappieAccountInfo) {
        entry = tag.map { Entry(account: account, tag: $0, models: models) }
    }

    private func entry(for account: ChappieAccountInfo) -> Entry? {
        entry.flatMap { $0.account.isSameAccount(as: account) ? $0 : nil }
    }
}
