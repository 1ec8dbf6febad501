import ChappieCore

/// The model list of one account and the tag it came with.
struct ModelListCache: Sendable {
    private var entry: (accountID: String?, tag: String, models: [ChappieModel])?

    func tag(for accountID: String?) -> String? { entry?.accountID == accountID ? entry?.tag : nil }
    func models(for accountID: String?) -> [ChappieModel]? { entry?.accountID == accountID ? entry?.models : nil }

    mutating func store(_ models: [ChappieModel], tag: String?, for accountID: String?) {
        entry = tag.map { (accountID, $0, models) }
    }
}
