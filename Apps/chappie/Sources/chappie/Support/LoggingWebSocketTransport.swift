import ChappieSDK
import FoundationEssentials
import HTTPTypes
import Logging

/// Logs how each WebSocket opens: where, the status and the time; never a header.
struct LoggingWebSocketTransport: WebSocketTransport {
    let transport: any WebSocketTransport
    private let logger = Logger(label: "chappie.websocket")

    init(_ transport: any WebSocketTransport) { self.transport = transport }

    func open(_ url: URL, headerFields: HTTPFields) async throws -> WebSocketOpening {
        let start = ContinuousClock.now
        var metadata: Logger.Metadata = ["host": "\(url.host() ?? "")", "path": "\(url.path())"]
        do {
            let opening = try await transport.open(url, headerFields: headerFields)
            metadata["seconds"] = "\((ContinuousClock.now - start).seconds)"
            switch opening {
            case .opened: metadata["status"] = "101"
            case .refused(let response): metadata["status"] = "\(response.status.code)"
            }
            logger.debug("opened", metadata: metadata)
            return opening
        } catch {
            logger.debug("failed", metadata: metadata)
            throw error
        }
    }
}
