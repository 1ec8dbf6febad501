/// A kind of feature that a server offers. The raw value is the name in the server's capabilities and notifications.
enum MCPOffer: String, Sendable, Hashable, CaseIterable {
    case tools, resources, prompts

    /// Creates the offer whose change a notification with this method reports. Returns `nil` for another method.
    init?(changedBy method: String) {
        let parts = method.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 3, parts[0] == "notifications", parts[2] == "list_changed" else { return nil }
        self.init(rawValue: String(parts[1]))
    }

    /// The name in the filter of `subscriptions/listen`.
    var subscription: String { rawValue + "ListChanged" }
}

/// A list of a server, which the server provides in pages.
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

    /// The member of a page that contains the entries.
    var member: String { self == .resourceTemplates ? "resourceTemplates" : offer.rawValue }

    /// The name of the entries, for a message.
    var words: String { self == .resourceTemplates ? "templates of resources" : offer.rawValue }
}
