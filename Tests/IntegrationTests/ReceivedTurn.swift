import ChappieCore
import ChappieSimulator
import Foundation
import Testing

/// A turn as it reached the server, over either transport, with the headers that it came under.
struct ReceivedTurn {
    /// The account whose token it brought.
    let accountID: String
    let sessionID: String
    /// `nil` for server-sent events.
    let webSocket: Int?
    let body: ChappieJSON

    /// The newest thing that was said.
    var question: String { body["input"]?.array?.last?["content"]?[0]?["text"]?.string ?? "" }
    var previousResponseID: String? { body["previous_response_id"]?.string }
    var inputCount: Int { body["input"]?.array?.count ?? 0 }

    /// All turns, those of each conversation in their order.
    ///
    /// Checks on the way, of every request with a token, that its header fields name that token's account and one
    /// conversation, in headers and body alike.
    static func all(_ simulator: Simulator) throws -> [ReceivedTurn] {
        var turns: [ReceivedTurn] = []
        var handshakes: [Int: (accountID: String, sessionID: String)] = [:]
        for request in simulator.receivedRequests {
            guard let authorization = request.header("authorization") else { continue }
            let accountID = try accountID(ofToken: authorization)
            #expect(request.header("chatgpt-account-id") == accountID)
            guard request.target.hasSuffix("/codex/responses") else { continue }
            let sessionID = try #require(request.header("session-id"))
            #expect(request.header("thread-id") == sessionID)
            if request.method == "GET" {
                handshakes[request.connection] = (accountID, sessionID)
            } else {
                let body = try ChappieJSON(parsing: request.body)
                turns.append(ReceivedTurn(accountID: accountID, sessionID: sessionID, webSocket: nil, body: body))
            }
        }
        for message in simulator.receivedMessages {
            let (accountID, sessionID) = try #require(handshakes[message.connection])
            turns.append(
                ReceivedTurn(
                    accountID: accountID, sessionID: sessionID, webSocket: message.connection,
                    body: try ChappieJSON(parsing: message.body)))
        }
        for turn in turns { #expect(turn.body["prompt_cache_key"]?.string == turn.sessionID) }
        return turns
    }

    /// Reads the claims itself: what the server takes the token for is not asked.
    static func accountID(ofToken authorization: String) throws -> String {
        let parts = authorization.split(separator: ".")
        try #require(parts.count == 3)
        var base64 = parts[1].map { $0 == "-" ? "+" : $0 == "_" ? "/" : String($0) }.joined()
        while base64.count % 4 != 0 { base64 += "=" }
        let claims = try ChappieJSON(parsing: Array(try #require(Data(base64Encoded: base64))))
        return try #require(claims["https://api.openai.com/auth"]?["chatgpt_account_id"]?.string)
    }
}
