import ChappieCore

/// Walks the device grant from the first request to the authorization code.
struct DeviceCodeSignIn: Sendable {
    let endpoints: ChappieEndpoints
    let issuer: IssuerClient

    /// - Parameters:
    ///   - onCode: called once, when there is a code to show.
    ///   - onPolling: called once, before the service is asked for the first time.
    /// - Throws: ``ChappieAuthError``, `cancelledSignIn` among them.
    @concurrent
    func run(
        onCode: @Sendable (ChappieDeviceCode) async -> Void, onPolling: @Sendable (ChappieDeviceCode) async -> Void
    ) async throws(ChappieAuthError) -> AuthorizationCode {
        let clock = issuer.clock
        let start = DeviceAuthorization(endpoints)
        let answer: IssuerAnswer
        do { answer = try await issuer.send(start.request) } catch { throw error.authError }
        var polling = try start.receivedAnswer(answer, now: clock.now, elapsed: clock.elapsed)
        guard !Task.isCancelled else { throw .cancelledSignIn }
        await onCode(polling.code)
        await onPolling(polling.code)
        while true {
            let step: DeviceAuthorizationPolling.Step
            do {
                let answer = try await issuer.send(polling.request)
                step = polling.receivedAnswer(answer, elapsed: clock.elapsed)
            } catch {
                step = polling.failedToReceive(error, elapsed: clock.elapsed)
            }
            guard !Task.isCancelled else { throw .cancelledSignIn }
            switch step {
            case .approved(let code): return code
            case .failed(let error): throw error
            case .wait(let duration):
                do { try await clock.sleep(for: duration) } catch { throw .cancelledSignIn }
            }
        }
    }
}
