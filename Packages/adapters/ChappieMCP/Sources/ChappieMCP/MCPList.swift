/// The kinds of what a server offers. The raw value is the name in its capabilities and notifications.
enum MCPOffer: String, Sendable, Hashable, CaseIterable {
    case tools, resources, prompts

    /// The offer that has changed, if the method of a notification says so.
    init?(changedBy method: String) {
        let parts = method.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 3, parts[0] == "notifications", parts[2] == "list_changed" else { return nil }
        self.init(rawValue: String(parts[1]))
    }

    /// The name in the filter of `subscriptions/listen`.
    var subscription: String { rawValue + "ListChanged" }
}

/// The lists of a server, which it gives in pages.
enum MCPList: Sendable, Hashable {
    case tools, resources, resourceTemplates, prompts

    /// The offer that a server without this list lacks.
    var offer: MCPOffer {
        switch self {
        case .tools: .tools
        case .resources, .resourceTemplates: .resources
        case .prompts: .prompts
        }
    }

    var method: String { self == .resourceTemplates ? "resources/templates/list" : "\(offer.rawValue)/list" }

    /// The member of a page that holds the entries.
    var member: String { self == .resourceTemplates ? "resourceTemplates" : offer.rawValue }

    /// The entries in words, for a message.
    var words: String { self == .resourceTemplates ? "templates of resources" : offer.rawValue }
}
