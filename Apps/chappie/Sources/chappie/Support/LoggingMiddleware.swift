import ChappieSDK
import FoundationEssentials
import HTTPTypes
import Logging

/// `--verbose`: one line a request on standard error. Method, host, path, status and time; never a header or a body.
struct LoggingMiddleware: HTTPMiddleware {
    private let logger = Logger(label: "chappie.http")

    static func bootstrap() {
        LoggingSystem.bootstrap { label in
            var handler = StreamLogHandler.standardError(label: label)
            handler.logLevel = .debug
            return handler
        }
    }

    func intercept(
        _ request: HTTPExchangeRequest,
        next: @Sendable (HTTPExchangeRequest) async throws -> HTTPExchangeResponse
    ) async throws -> HTTPExchangeResponse {
        let start = ContinuousClock.now
        var metadata: Logger.Metadata = [
            "method": "\(request.method.rawValue)", "host": "\(request.url.host() ?? "")",
            "path": "\(request.url.path())", "bytes": "\(request.body?.bytes.count ?? 0)",
        ]
        do {
            let response = try await next(request)
            metadata["status"] = "\(response.status.code)"
            metadata["milliseconds"] = "\((ContinuousClock.now - start).inMilliseconds)"
            logger.debug("exchange", metadata: metadata)
            return response
        } catch {
            metadata["milliseconds"] = "\((ContinuousClock.now - start).inMilliseconds)"
            metadata["error"] = "\(type(of: error))"
            logger.debug("exchange failed", metadata: metadata)
            throw error
        }
    }
}

extension Duration {
    fileprivate var inMilliseconds: Int64 {
        components.seconds * 1000 + components.attoseconds / 1_000_000_000_000_000
    }
}
