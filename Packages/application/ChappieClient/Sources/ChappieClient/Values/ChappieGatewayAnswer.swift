@_spi(ChappieInternals) import ChappieCore

/// An answer that does not come from the service, but from its edge or from a network on the way.
public struct ChappieGatewayAnswer: Sendable, Hashable, Codable {
    /// The sender of such an answer. Unknown values are kept.
    public struct Sender: RawRepresentable, Sendable, Hashable, Codable {
        public let rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }

        /// The edge of the service answers for a service that it does not reach, without a body and without a request
        /// id.
        public static let edge = Sender(rawValue: "edge")
        /// A network on the way answers with its own page. Some networks do so until the user has signed in to them.
        public static let network = Sender(rawValue: "network")
    }

    /// The origin of the answer.
    public var sender: Sender
    /// The requested host.
    public var host: String
    /// The status of the answer.
    public var status: Int
    /// The id of the exchange at the sender.
    public var requestID: String?

    /// Creates an answer with the given properties.
    public init(sender: Sender, host: String, status: Int, requestID: String? = nil) {
        self.sender = sender
        self.host = host
        self.status = status
        self.requestID = requestID
    }

    var sentence: String {
        guard sender == .edge else { return BlockingPage.networkSentence(host: host, status: status) }
        return "The service can't be reached at the moment "
            + "(\(status) from \(host)\(requestID.map { ", cf-ray \($0)" } ?? ""))."
    }

    var advice: String {
        sender == .edge ? "See https://status.openai.com, or try again later." : BlockingPage.networkAdvice
    }
}
