import ChappieCore
import ChappieSDK
import FoundationEssentials
import HTTPTypes

/// The log of `--verbose`, with a line for each request and each WebSocket. A line has method, address without its
/// query, status and time. It never contains a header or a body.
struct RequestLog: HTTPMiddleware {
    let console: Console

    func intercept(
        _ request: HTTPExchangeRequest,
        next: @concurrent @Sendable (HTTPExchangeRequest) async throws -> HTTPExchangeResponse
    ) async throws -> HTTPExchangeResponse {
        let size = request.body.map { " of \($0.bytes.count) bytes" } ?? ""
        return try await logged("\(request.method.rawValue)\(size)", request.url) {
            let response = try await next(request)
            return (response, response.status)
        }
    }

    fileprivate func logged<Answer>(
        _ what: String, _ url: URL, _ exchange: () async throws -> (Answer, HTTPResponse.Status)
    ) async throws -> Answer {
        let start = ContinuousClock.now
        func log(_ end: String) {
            let time = (ContinuousClock.now - start).wholeMilliseconds
            console.note("chappie: \(what) \(url.host() ?? "")\(url.path()): \(end) after \(time) ms")
        }
        do {
            let (answer, status) = try await exchange()
            log("status \(status.code)")
            return answer
        } catch {
            log("\(type(of: error))")
            throw error
        }
    }
}

/// A transport that logs how each WebSocket opens.
struct LoggedWebSocketTransport: WebSocketTransport {
    let transport: any WebSocketTransport
    let log: RequestLog

    func open(_ url: URL, headerFields: HTTPFields) async throws -> WebSocketOpening {
        try await log.logged("WebSocket", url) {
            let opening = try await transport.open(url, headerFields: headerFields)
            return switch opening {
            case .opened: (opening, .switchingProtocols)
            case .refused(let response): (opening, response.status)
            }
        }
    }
}
