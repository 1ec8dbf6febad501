import ChappieCore
import FoundationEssentials
import HTTPTypes

/// The device grant before its first step: it can ask for a code, and nothing else.
///
/// Answering consumes it and gives the next step, so that a flow can't be polled before it was started.
struct DeviceAuthorization: ~Copyable {
    private let endpoints: ChappieEndpoints

    init(_ endpoints: ChappieEndpoints) { self.endpoints = endpoints }

    /// Asks for a code. Sign-in carries a content type and an accept header, no originator and no user agent.
    var request: HTTPExchangeRequest {
        Self.request(
            endpoints.profile.deviceUserCodeURL, ["client_id": .string(endpoints.registration.clientID)])
    }

    /// Takes the answer.
    ///
    /// - Parameters:
    ///   - now: the wall clock, for ``ChappieDeviceCode/expiresAt`` only.
    ///   - elapsed: the clock that deadlines are measured with.
    /// - Throws: ``ChappieAuthError``; 404 is ``ChappieAuthError/authorizationDenied(_:)`` with a sentence that says
    ///   where device sign-in is switched on.
    consuming func receivedAnswer(
        _ answer: IssuerAnswer, now: Date, elapsed: Duration
    ) throws(ChappieAuthError) -> DeviceAuthorizationPolling {
        let host = endpoints.profile.issuer.hostAndPort
        if answer.status == 404 { throw .authorizationDenied(Self.switchedOff(host: host)) }
        guard answer.isSuccess else { throw IssuerError(answer).authError(host: host) }
        guard let answer = DeviceCodeAnswer(answer, now: now) else { throw .invalidResponse }
        return DeviceAuthorizationPolling(endpoints: endpoints, answer: answer, now: now, elapsed: elapsed)
    }

    static func request(_ url: URL, _ body: ChappieJSON) -> HTTPExchangeRequest {
        HTTPExchangeRequest(
            method: .post, url: url, headerFields: [.contentType: "application/json", .accept: "*/*"],
            body: .init(bytes: body.serializedBytes()))
    }

    private static func switchedOff(host: String) -> String {
        "Signing in with a device code is switched off. Switch it on in ChatGPT under Settings, Security, \"Enable device "
            + "code authorization for Codex\" (https://chatgpt.com/#settings/Security), and start again. If it is on "
            + "already, check the issuer address: \(host) does not offer device sign-in."
    }
}
