@_spi(ChappieInternals) import ChappieCore

/// A comparison of the values that a request names with those that the service reports about its answer.
struct AnsweredFacts: Sendable {
    private let model: String?
    private let tier: String?
    private let effort: String?
    /// The model that answers, or `nil` as long as only the request's model is known.
    private(set) var otherModel: String?
    private var notices: [ChappieNotice] = []

    init(asking body: ChappieJSONObject) {
        model = body["model"]?.string
        tier = body["service_tier"]?.string
        effort = body["reasoning"]?["effort"]?.string
    }

    /// Prepares for a request that is sent, for the first time or again.
    mutating func attemptBegan() { self = AnsweredFacts(of: self) }

    private init(of other: AnsweredFacts) {
        model = other.model
        tier = other.tier
        effort = other.effort
    }

    /// Takes the name of the answering model from a header field, an event or the response.
    mutating func received(model name: String?) {
        guard let model, let name = UntrustedText.token(name, limit: 200), otherModel == nil,
            !ChappieModel.isSame(name, model)
        else { return }
        otherModel = name
        notices.append(ChappieNotice(.otherModel, "\(name) answered instead of \(UntrustedText.forTerminal(model))."))
    }

    /// Takes the complete response, which also names its tier and its effort.
    mutating func received(_ response: ChappieResponse) {
        received(model: response.model)
        if let tier, let granted = UntrustedText.token(response.raw["service_tier"]?.string, limit: 100),
            granted != tier, granted != "auto"
        {
            notices.append(
                ChappieNotice(.otherTier, "The service answered in the tier \"\(granted)\" instead of \"\(tier)\"."))
        }
        if let effort, let used = UntrustedText.token(response.raw["reasoning"]?["effort"]?.string, limit: 100),
            used != effort
        {
            notices.append(
                ChappieNotice(
                    .effortChanged, "The model answered with the effort \"\(used)\" instead of \"\(effort)\"."))
        }
    }

    /// Returns the notices to the user since the last call.
    mutating func takeNotices() -> [ChappieNotice] {
        defer { notices = [] }
        return notices
    }
}
