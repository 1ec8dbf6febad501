import ChappieCore
import FoundationEssentials

extension Backend {
    /// Starts a sign-in by device code.
    mutating func userCode(_ request: BackendRequest, now: Int, quirks: DeviceQuirks) -> BackendResponse {
        guard let clientID = request.json?["client_id"]?.string, !clientID.isEmpty else {
            return .error(400, code: "invalid_request", message: "The member client_id is missing.")
        }
        let started = authorizations.begin(clientID: clientID, now: now, identifiers: &identifiers)
        var answer = ChappieJSONObject([
            ("device_auth_id", .string(started.id)), (quirks.userCodeKey, .string(started.userCode.display)),
        ])
        switch quirks.interval {
        case .string: answer["interval"] = .string(String(settings.pollInterval))
        case .number: answer["interval"] = .integer(settings.pollInterval)
        case .null: answer["interval"] = .null
        case .absent: break
        }
        let expiry = Date(timeIntervalSince1970: Double(started.expiresAt))
        answer["expires_at"] = .string(expiry.formatted(.iso8601))
        return .json(.object(answer), headers: [noStore])
    }

    /// Answers a poll.
    ///
    /// What the real service says after a person refused is not known. Here it is 400 with the code `access_denied` of
    /// RFC 8628, 3.5: clients take every status but 403 and 404 as the end.
    mutating func deviceToken(_ request: BackendRequest, now: Int, quirks: DeviceQuirks) -> BackendResponse {
        guard let body = request.json, let id = body["device_auth_id"]?.string, let code = body["user_code"]?.string
        else {
            return .error(400, code: "invalid_request", message: "device_auth_id and user_code are needed.")
        }
        switch authorizations.poll(id: id, userCode: code, now: now, identifiers: &identifiers) {
        case .pending:
            return .error(
                quirks.pendingStatus, code: "deviceauth_authorization_pending",
                message: "Device authorization is pending. Please try again.", headers: [noStore])
        case .refused:
            return .error(400, code: "access_denied", message: "The sign-in was refused.", headers: [noStore])
        case .gone:
            return .error(
                400, code: "expired_token", message: "The code has expired or was used already. Please start again.",
                headers: [noStore])
        case .approved(let authorizationCode, let verifier):
            let answer: ChappieJSON = [
                "status": "success", "authorization_code": .string(authorizationCode),
                "code_challenge": .string(verifier.challenge), "code_verifier": .string(verifier.verifier),
            ]
            return .json(answer, headers: [noStore])
        }
    }

    var noStore: (String, String) { ("cache-control", "no-store") }
}
