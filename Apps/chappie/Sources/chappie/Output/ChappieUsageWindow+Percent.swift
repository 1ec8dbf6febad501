import ChappieSDK

extension ChappieUsageWindow {
    /// Without its fraction; 0 where no integer holds it.
    var wholePercent: Int { Int(exactly: usedPercent.rounded(.towardZero)) ?? 0 }
}
