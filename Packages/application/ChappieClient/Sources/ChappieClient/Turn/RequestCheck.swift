@_spi(ChappieInternals) import ChappieCore

/// A check before anything is sent: whether a request has a part that its model or the service does not take.
struct RequestCheck {
    let frame: RequestFrame
    let items: [ChappieJSON]
    let model: ChappieModel
    /// All models of the account, for advice.
    let list: [ChappieModel]

    private var name: String { UntrustedText.forTerminal(model.slug) }

    /// Checks the request.
    ///
    /// - Parameters:
    ///   - earlier: the items of the conversation.
    ///   - refusedRoles: the roles of messages that the backend refuses.
    ///   - listsTools: whether the list of models specifies which tools of the backend they take.
    /// - Throws: ``ChappieClientError/unsupportedInput(_:_:)``.
    func check(
        _ earlier: [ChappieJSON], refusedRoles: [String], listsTools: Bool
    ) throws(ChappieClientError) {
        if let role = (items + earlier).lazy.compactMap({ $0["role"]?.string }).first(where: refusedRoles.contains) {
            throw .unsupportedInput(
                "The service takes no message of the role \"\(role)\".",
                "Give the text as the harness's instructions, or as a message of the role \"developer\".")
        }
        let hasPicture = items.contains { $0["type"] == "message" && RequestInput.hasImage($0) }
        if hasPicture, !frame.takesPictures {
            let others = list.filter { $0.isListed && $0.inputModalities.contains("image") }
            let names = others.prefix(5).map { UntrustedText.forTerminal($0.slug) }.joined(separator: ", ")
            throw .unsupportedInput(
                "The model \(name) takes text only.",
                names.isEmpty
                    ? "Ask without pictures." : "Ask without pictures, or name a model that takes them: \(names).")
        }
        if frame.isLite, items.contains(where: RequestInput.hasImageByAddress) {
            throw .unsupportedInput(
                "The model \(name) takes no image by its address.", "Fetch the image, and give its file or its bytes.")
        }
        for tool in frame.hostedTools where !tool.isOffered(by: model, listsTools: listsTools) {
            throw .unsupportedInput(
                "The model \(name) does not offer \(tool.name).", "Ask without it, or name another model.")
        }
        if let tier = frame.serviceTier, !model.serviceTiers.contains(where: { $0.id == tier }) {
            throw .unsupportedInput(
                "The model \(name) is not offered in the tier \(UntrustedText.forTerminal(tier)).",
                "Ask without it, or name another model.")
        }
        switch frame.toolChoice {
        case .required where frame.isLite, .function where frame.isLite, .custom where frame.isLite:
            throw .unsupportedInput(
                "The model \(name) decides itself which tools it calls.",
                "Ask without a choice of tools, or name another model.")
        default: break
        }
    }
}
