import ChappieAuth

/// What has been said, and under which ids. All of it is one account's.
struct Conversation: Sendable {
    let account: ChappieAccountInfo
    let builder: ResponsesRequestBuilder
    var transcript: Transcript
}
