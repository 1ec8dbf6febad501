@_spi(ChappieInternals) import ChappieAuth
import ChappieCore
import HTTPTypes

/// The form of requests, in which the two backends differ.
extension ChappieEndpoints {
    /// The meaning of the backend's error codes.
    var errorTable: ErrorTable { usesPlan ? .chatGPTPlan : .chatGPT }

    /// The roles of messages that the backend refuses.
    var refusedRoles: [String] { usesPlan ? ["system"] : [] }

    /// Returns the content coding of a body of this many bytes. Compression of a small body would save no packet.
    func coding(ofBytes count: Int) -> HTTPExchangeRequest.Body.Coding {
        usesPlan || count < 4096 ? .identity : .zstd
    }

    /// The header fields of a WebSocket's opening handshake, in addition to the fields for authorization. `openai-beta`
    /// names the version of the ChatGPT/Codex backend's frames.
    var webSocketFields: HTTPFields {
        guard !usesPlan, let beta = HTTPField.Name("openai-beta") else { return [:] }
        return [beta: "responses_websockets=2026-02-06"]
    }
}
