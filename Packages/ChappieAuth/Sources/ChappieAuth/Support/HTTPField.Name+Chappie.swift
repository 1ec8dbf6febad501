import HTTPTypes

extension HTTPField.Name {
    // Literals inside the token alphabet (RFC 9110, 5.6.2): the initialiser can't refuse them.
    static let originator = HTTPField.Name("originator")!
    static let chatGPTAccountID = HTTPField.Name("chatgpt-account-id")!
    static let fedRAMP = HTTPField.Name("X-OpenAI-Fedramp")!
}
