/// Which models to list. By default: those the backend lists for people.
public struct ChappieModelFilter: Sendable, Hashable {
    /// Only models that the API supports. Default `false`.
    public var supportedInAPI: Bool
    /// Only models that take all of these inputs. Default none.
    public var inputModalities: [String]
    /// Also models that the backend hides from lists. Default `false`.
    public var includesHidden: Bool

    public init(supportedInAPI: Bool = false, inputModalities: [String] = [], includesHidden: Bool = false) {
        self.supportedInAPI = supportedInAPI
        self.inputModalities = inputModalities
        self.includesHidden = includesHidden
    }

    /// Models for text that the API supports.
    public static let textInAPI = ChappieModelFilter(supportedInAPI: true, inputModalities: ["text"])

    /// Whether `model` may be listed.
    public func matches(_ model: ChappieModel) -> Bool {
        (includesHidden || model.isListed) && (!supportedInAPI || model.supportedInAPI)
            && inputModalities.allSatisfy(model.inputModalities.contains)
    }
}
