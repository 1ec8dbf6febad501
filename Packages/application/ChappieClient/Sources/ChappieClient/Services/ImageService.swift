@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import HTTPTypes

/// The service's endpoints that make pictures and change them.
///
/// A picture uses a part of the plan's quota and takes minutes. So a request that may have been carried out is not
/// repeated.
struct ImageService: Sendable {
    let caller: ServiceCaller
    /// The id of the turn.
    let turnID: String

    /// The deadlines of a picture, which may take 10 minutes until the first byte of its answer.
    static let deadlines = ChappieDeadlines(
        responseHead: .seconds(600), firstByte: .seconds(600), idle: .seconds(600))
    /// The time within which a gateway's error shows that the request has not been carried out.
    private static let early = Duration.seconds(2)

    /// Makes a picture, or changes the given ones.
    ///
    /// - Parameter images: the `data:` URLs of the pictures to change.
    /// - Throws: ``ChappieClientError``; `CancellationError`.
    func make(_ request: ChappieImageRequest, images: [String] = []) async throws -> ChappieGeneratedImage {
        let endpoints = caller.endpoints
        guard let url = images.isEmpty ? endpoints.imageGenerationsURL : endpoints.imageEditsURL else {
            throw ChappieClientError.notWithThisSignIn("Making pictures")
        }
        let body = request.body(images: images)
        let began = caller.clock.elapsed
        do {
            return try await send(body, to: url)
        } catch {
            guard isUntouched(error, after: caller.clock.elapsed - began) else { throw explained(error) }
        }
        do {
            return try await send(body, to: url)
        } catch {
            throw explained(error)
        }
    }

    private func send(_ body: ChappieJSONObject, to url: URL) async throws -> ChappieGeneratedImage {
        let response = try await caller.post(body, to: url, [.imageTurnID: turnID], within: Self.deadlines)
        var decoder = ImageAnswerDecoder()
        while let chunk = try await response.body.next() {
            do {
                try decoder.receive(chunk)
            } catch {
                response.body.cancel()
                throw error
            }
        }
        return try decoder.finish()
    }

    /// Returns whether the request has not been carried out: no byte of it was sent, or a gateway did not reach the
    /// service.
    private func isUntouched(_ error: any Error, after duration: Duration) -> Bool {
        switch error {
        case let error as ChappieTransportError: [.connect, .tls].contains(error.stage)
        case let failure as AttemptFailure:
            switch failure.error {
            case ChappieClientError.httpError(502...504, _): duration <= Self.early
            default: failure.kind == .overloaded && duration <= Self.early
            }
        default: false
        }
    }

    /// Returns the error for the caller.
    private func explained(_ error: any Error) -> any Error {
        switch error {
        case let error as ChappieTransportError
        where [.request, .responseHead, .firstByte, .responseBody].contains(error.stage)
            && [.timedOut, .connectionLost, .protocolViolation].contains(error.code):
            return ChappieClientError.imageFailed(.mayHaveBeenMade(error.errorDescription ?? "The connection broke."))
        case let failure as AttemptFailure:
            guard let error = failure.error as? ChappieClientError else { return failure.error }
            return explained(error, failure)
        default: return ChappieClientError.wrapping(error)
        }
    }

    private func explained(_ error: ChappieClientError, _ failure: AttemptFailure) -> ChappieClientError {
        switch error {
        case .httpError(400, let body), .httpError(403, let body):
            let refusal = ChappieResponseError(text: body)
            let names = [refusal.code, refusal.type].compactMap(\.self)
            guard names.contains("moderation_blocked") || names.contains("image_generation_user_error") else {
                return error
            }
            return .imageFailed(.refusedBySafetyCheck(refusal.message.map { String($0.prefix(300)) }))
        case .usageLimitReached(let limit) where limit.type == "rate_limit_exceeded":
            return .imageFailed(.tooManyPictures(until: limit.resetsAt))
        case .httpError(500..., _):
            return .imageFailed(.mayHaveBeenMade(error.errorDescription ?? "The server failed."))
        case .httpError(429, _):
            let until = failure.retryAfter.map { caller.clock.now.addingTimeInterval($0) }
            return .imageFailed(.tooManyPictures(until: until))
        default: return error
        }
    }
}

extension HTTPField.Name {
    /// The field that names the turn. The name is valid by RFC 9110's grammar. The fallback only avoids a trap.
    fileprivate static let imageTurnID = HTTPField.Name("x-codex-image-turn-id") ?? .accept
}
