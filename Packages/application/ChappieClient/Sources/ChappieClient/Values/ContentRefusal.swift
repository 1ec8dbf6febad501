import ChappieAuth
@_spi(ChappieInternals) import ChappieCore

/// A refusal because of the question's content or of the account. Repeating the request does not change it.
enum ContentRefusal {
    case content, account

    /// Creates the refusal that an error's code represents, or returns `nil` for any other error.
    init?(_ code: String?) {
        guard let code = code?.lowercased(), !code.contains("workspace") else { return nil }
        if ErrorTable.chatGPT.meaning(of: code) == .refused || Self.words.contains(where: code.contains) {
            self = .content
        } else if code.hasSuffix("_blocked") || code.hasSuffix("_suspended") {
            self = .account
        } else {
            return nil
        }
    }

    private static let words = ["policy", "moderation", "content_filter", "safety"]

    /// The beginning of the sentence for the user.
    var summary: String {
        switch self {
        case .content: "The service refused this question for its content"
        case .account: "The service does not answer this account's questions"
        }
    }

    /// Returns the user's next step.
    func advice(_ code: String?) -> String {
        switch self {
        case .content where code?.lowercased().contains("cyber") == true:
            "Rephrase the question. For authorised work, see https://chatgpt.com/cyber."
        case .content: "Rephrase the question."
        case .account: "Ask the service at https://help.openai.com."
        }
    }
}

extension ChappieClientError {
    /// Whether the service refuses the question because of its content, or because of the account.
    @_spi(ChappieInternals) public var isContentRefusal: Bool {
        switch self {
        case .httpError(_, let body): ContentRefusal(ChappieResponseError(text: body).code) != nil
        case .responseFailed(let response): ContentRefusal(response.error?.code) != nil
        default: false
        }
    }
}
