@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import HTTPTypes

/// A classifier for the backend's own errors.
struct BackendErrors: Sendable {
    /// The backend's host, for errors.
    let host: String
    private let table: ErrorTable
    private let usagePage: URL?

    /// The number of bytes of an error body that are kept.
    static let bodyLimit = 64 << 10
    /// The number of header fields of an error inside the stream that are read. `HTTPFields` traps if there are too
    /// many.
    private static let fieldLimit = 100

    init(_ endpoints: ChappieEndpoints) {
        host = endpoints.backend.host() ?? ""
        table = endpoints.errorTable
        usagePage = endpoints.usagePage
    }

    /// Returns whether the sentence is about the region to which the account's workspace is pinned.
    private static func isAboutRegion(_ message: String?, _ status: Int) -> Bool {
        guard let message = message?.lowercased(), [400, 401, 403].contains(status) else { return false }
        let words = ["workspace is not authorized in this region", "not available for your project's geography"]
        return (status == 401 ? words + ["region", "geography", "residency"] : words).contains(where: message.contains)
    }

    /// Classifies an HTTP error, and ends the transfer of its body.
    func failure(_ response: HTTPExchangeResponse, now: Date) async throws -> AttemptFailure {
        failure(
            status: response.status.code, headerFields: response.headerFields,
            body: try await response.body.beginning(), now: now)
    }

    func failure(status: Int, headerFields: HTTPFields, body: [UInt8], now: Date) -> AttemptFailure {
        let text = UntrustedText.withoutTokens(Self.words(body, headerFields))
        if text.isEmpty, [403, 404].contains(status), !RequestID.isOfService(headerFields) {
            return AttemptFailure(.outage, gatewayAnswered(.edge, status, headerFields))
        }
        // A blank body is not a page, whatever its type.
        let type = Self.isBlank(body) ? nil : headerFields[.contentType]
        if BlockingPage.isOne(status: status, contentType: type, body: body) {
            let error = ChappieClientError.blockedByGateway(host)
            if let requestID = headerFields.requestID { error.note(requestID: requestID) }
            return AttemptFailure(.final, error)
        }
        if BlockingPage.isOfNetwork(status: status, contentType: type, body: body) {
            return AttemptFailure(.final, gatewayAnswered(.network, status, headerFields))
        }
        let error = ChappieResponseError(text: text)
        if Self.isAboutRegion(error.message, status) {
            let refusal = ChappiePlanRefusal(
                reason: .workspaceRegion, status: status, message: error.message, requestID: headerFields.requestID)
            return AttemptFailure(.final, .planRefused(refusal))
        }
        if let reason = Self.refusal(status, error) {
            let refusal = ChappieModelRefusal(slug: "", reason: reason, requestID: headerFields.requestID)
            return AttemptFailure(.final, .modelUnavailable(refusal))
        }
        let kind: AttemptFailure.Kind =
            switch status {
            case 429: .rateLimited(resetsIn: nil)
            // RFC 9110, 15.5.9: the server stopped waiting for the request. The client may send it again.
            case 408, 500...: .broken
            default: .final
            }
        return failure(
            error, headerFields, otherwise: kind,
            .httpError(status, String(decoding: text.utf8.prefix(Self.bodyLimit), as: UTF8.self)), status: status,
            now: now)
    }

    private func gatewayAnswered(
        _ sender: ChappieGatewayAnswer.Sender, _ status: Int, _ fields: HTTPFields
    ) -> ChappieClientError {
        .gatewayAnswered(
            ChappieGatewayAnswer(sender: sender, host: host, status: status, requestID: fields.requestID))
    }

    private static func isBlank(_ body: [UInt8]) -> Bool {
        body.allSatisfy { [0x20, 0x09, 0x0A, 0x0D].contains($0) }
    }

    /// Returns the body of an error. If it is blank, returns the reason that some parts of the service give only in
    /// header fields, in the form of a body.
    private static func words(_ body: [UInt8], _ fields: HTTPFields) -> String {
        guard isBlank(body) else { return String(decoding: body, as: UTF8.self) }
        let encoded = fields[.errorJSON]?.replacing("+", with: "-").replacing("/", with: "_")
        if let json = encoded.flatMap(Base64URL.decode).map({ String(decoding: $0, as: UTF8.self) }),
            (try? ChappieJSON(parsing: json))?.object != nil
        {
            return json
        }
        guard let reason = fields[.authorizationError] else { return "" }
        return ChappieJSON.object(["error": ["code": .string(reason)]]).serialized()
    }

    /// Returns the reason for which the service refuses the model, or `nil` for other errors. The service has three
    /// sentences for this, and no code.
    private static func refusal(_ status: Int, _ error: ChappieResponseError) -> ChappieModelRefusal.Reason? {
        let message = error.message?.lowercased() ?? ""
        switch status {
        case 400 where message.contains("not supported when using codex with a chatgpt account"): return .notInPlan
        case 400 where message.contains("requires a newer version of codex"): return .newerClientNeeded
        case 404 where error.parameter == "model" || message.hasPrefix("model not found"): return .unknown
        default: return nil
        }
    }

    /// Classifies an error inside the stream, by the HTTP error that it represents, or like a failed response if it has
    /// no status.
    ///
    /// - Parameter requestID: the exchange's id, in case the event names none.
    func failure(_ event: ResponsesErrorEvent, requestID: String? = nil, now: Date) -> AttemptFailure {
        let fields = Self.fields(of: event, requestID)
        var body = event.raw
        if body["error"]?.isNull ?? true, var object = body.object {
            // This is the type of the event, not of the failure.
            object["type"] = nil
            body = .object(object)
        }
        guard let status = event.status else {
            let error = body["error"].flatMap { $0.isNull ? nil : $0 } ?? body
            return failure(of: ["error": error], fields, now: now)
        }
        return failure(status: status, headerFields: fields, body: body.serializedBytes(), now: now)
    }

    /// Returns the failure for an error with the status of a success. It may be a network's page, an error as JSON, or
    /// an event that is not JSON.
    func failure(ofSuccess status: Int, headerFields: HTTPFields, body: [UInt8], now: Date) -> AttemptFailure {
        if BlockingPage.isOfNetwork(status: status, contentType: headerFields[.contentType], body: body) {
            return AttemptFailure(.final, gatewayAnswered(.network, status, headerFields))
        }
        let text = String(decoding: body, as: UTF8.self)
        var json = (try? ChappieJSON(parsing: text)) ?? .null
        let lines = text.split(whereSeparator: \.isNewline)
        if lines.contains(where: { $0.hasPrefix("event:") && $0.hasSuffix("error") }) {
            let data = lines.filter { $0.hasPrefix("data:") }.map { $0.dropFirst(5).drop { $0 == " " } }
            let words = data.joined(separator: " ")
            json =
                (try? ChappieJSON(parsing: words)).flatMap { $0.object == nil ? nil : $0 } ?? ["error": .string(words)]
        }
        let error = ChappieResponseError(body: json)
        guard json["error"] != nil || json["detail"] != nil, error.message ?? error.code != nil else {
            let error = ChappieClientError.invalidResponse
            if let requestID = headerFields.requestID { error.note(requestID: requestID) }
            return AttemptFailure(.final, error)
        }
        // Such an error comes from a gateway that would answer the next request in the same way.
        let found = json["error"].flatMap { $0.isNull ? nil : $0 } ?? json["detail"] ?? .null
        return failure(of: ["error": found], headerFields, otherwise: .final, now: now)
    }

    /// Returns the header fields of an error inside the stream.
    ///
    /// - Parameter requestID: the exchange's id, in case the event names none.
    static func fields(of event: ResponsesErrorEvent, _ requestID: String?) -> HTTPFields {
        var fields = fields(in: event.headers)
        if fields.requestID == nil { fields[RequestID.field] = requestID }
        return fields
    }

    /// Classifies a response that ended in an error. Errors that the table does not know are usually temporary.
    func failure(_ response: ChappieResponse, now: Date) -> AttemptFailure {
        var fields = Self.fields(in: response.error?.raw["headers"])
        if fields.requestID == nil { fields[RequestID.field] = response.requestID }
        return failure(response, fields, now: now)
    }

    private func failure(
        of json: ChappieJSON, _ fields: HTTPFields, otherwise kind: AttemptFailure.Kind? = nil, now: Date
    ) -> AttemptFailure {
        var response = ChappieResponse(json, .failed)
        response.requestID = fields.requestID
        return failure(response, fields, otherwise: kind, now: now)
    }

    private func failure(
        _ response: ChappieResponse, _ fields: HTTPFields, otherwise kind: AttemptFailure.Kind? = nil, now: Date
    ) -> AttemptFailure {
        let response = Self.withoutTokens(response)
        let error = response.error ?? ChappieResponseError(.null)
        if let reason = Self.refusal(400, error) ?? Self.refusal(404, error) {
            let refusal = ChappieModelRefusal(slug: "", reason: reason, requestID: fields.requestID)
            return AttemptFailure(.final, .modelUnavailable(refusal))
        }
        // The same request would be refused again.
        let isOfRequest = error.type?.lowercased().hasPrefix("invalid_request") == true
        return failure(
            error, fields, otherwise: kind ?? (isOfRequest ? .final : .broken), .responseFailed(response), now: now)
    }

    private func failure(
        _ error: ChappieResponseError, _ fields: HTTPFields, otherwise kind: AttemptFailure.Kind,
        _ unmapped: ChappieClientError, status: Int? = nil, now: Date
    ) -> AttemptFailure {
        func refused(_ reason: ChappiePlanRefusal.Reason) -> ChappieClientError {
            // Only the code of such a refusal specifies the reason.
            let code = reason == .workspace ? error.shownCode : nil
            let words =
                error.message.map { words in
                    code.map { words.contains($0) ? words : "\(words) (\($0))" } ?? words
                } ?? code
            return .planRefused(
                ChappiePlanRefusal(
                    reason: reason, status: status, message: words,
                    parameter: error.parameter.map { UntrustedText.forTerminal(String($0.prefix(100))) },
                    requestID: fields.requestID))
        }
        // Diagnostic text does not count as a code. Only the status has a meaning.
        let isDetail = error.raw["detail"].map { !$0.isNull } ?? false
        let byStatus = isDetail ? status.flatMap { table.detailMeanings[$0] } : nil
        let retryAfter = retryAfter(error, fields, now: now)
        let isLimit = fields[.reachedLimit] != nil || retryAfter.map { $0 > Self.longestPause } == true
        let (kind, error): (AttemptFailure.Kind, ChappieClientError) =
            switch table.meaning(of: error.code, error.type) ?? Self.meaning(of: error.message) ?? byStatus {
            case .usageLimitReached: limited(usageLimit(error, fields, now: now), now: now)
            case .quotaExceeded: (.final, .usageLimitReached(usageLimit(error, fields, now: now)))
            case .contextWindowExceeded: (.final, .contextWindowExceeded)
            case .rateLimited where isLimit, nil where isLimit && kind.isRateLimit:
                limited(usageLimit(error, fields, called: "rate_limit_exceeded", now: now), now: now)
            case .rateLimited: (.rateLimited(resetsIn: nil), unmapped)
            case .conversationLost: (.stale, unmapped)
            case .unreadableReasoning: (.unreadableReasoning, unmapped)
            case .modelUnavailable:
                (
                    .final,
                    .modelUnavailable(ChappieModelRefusal(slug: "", reason: .unknown, requestID: fields.requestID))
                )
            case .planLimitReached: (.final, .usageLimitReached(usageLimit(error, fields, now: now)))
            case .planUnavailable: (.broken, refused(.unavailable))
            case .planNotEligible: (.final, refused(.notEligible))
            case .planNotAuthorized: (.final, refused(.notAuthorized))
            case .appNotEnabled: (.final, refused(.appNotEnabled))
            case .planUserUnknown: (.final, refused(.userUnknown))
            case .capabilityUnsupported: (.final, refused(.capability))
            case .routeUnsupported: (.final, refused(.route))
            case .policyForbids: (.final, refused(.policy))
            case .workspaceUnavailable: (.final, refused(.workspace))
            case .overloaded:
                (
                    .overloaded,
                    .modelUnavailable(
                        ChappieModelRefusal(
                            slug: "", reason: .atCapacity, message: error.message, requestID: fields.requestID))
                )
            case .refused: (.final, unmapped)
            case nil where ContentRefusal(error.code) != nil: (.final, unmapped)
            case .accessTokenRefused, nil: (kind, unmapped)
            }
        if let requestID = fields.requestID { error.note(requestID: requestID) }
        return AttemptFailure(kind, error, retryAfter: retryAfter)
    }

    /// The number of seconds above which a pause is a limit that the user has to know about.
    private static let longestPause: TimeInterval = 30

    /// Classifies a usage limit. Another request can help only after its reset, and not at all if its credits are used
    /// up.
    private func limited(_ limit: ChappieUsageLimit, now: Date) -> (AttemptFailure.Kind, ChappieClientError) {
        let isOfCredits = [.workspaceOwnerCredits, .workspaceMemberCredits].contains(limit.reachedType)
        let resetsIn = isOfCredits ? nil : limit.resetsInSeconds ?? limit.resetsAt?.timeIntervalSince(now)
        return (resetsIn.map { .rateLimited(resetsIn: $0) } ?? .final, .usageLimitReached(limit))
    }

    /// Returns the meaning of an error that comes without its code, as some do.
    private static func meaning(of message: String?) -> ErrorTable.Meaning? {
        let message = message?.lowercased() ?? ""
        if message.contains("exceeds the context window") || message.contains("maximum context length") {
            return .contextWindowExceeded
        }
        let isUndecided = !message.contains("could not be") && !message.contains("decrypt")
        return message.contains("encrypted content") && !isUndecided ? .unreadableReasoning : nil
    }

    /// Returns the limit with its reset from the error, from the windows of the header fields, or from the pause that
    /// the server requests.
    ///
    /// - Parameter name: the type of a limit that has none.
    private func usageLimit(
        _ error: ChappieResponseError, _ fields: HTTPFields, called name: String = "usage_limit_reached", now: Date
    ) -> ChappieUsageLimit {
        let family = fields[.activeLimit].map { $0.split(separator: "_").joined(separator: "-") }
        let rateLimit =
            family.flatMap { ChappieUsageLimitSnapshot(headerFields: fields, family: $0) }
            ?? ChappieUsageLimitSnapshot(headerFields: fields)
        let snapshot = rateLimit?.dated(at: now)
        let seconds = error.resetsInSeconds ?? retryAfter(error, fields, now: now)
        let resetsAt =
            error.resetsAt ?? error.resetsInSeconds.map { now.addingTimeInterval($0) } ?? snapshot?.resetOfUsedUp
            ?? seconds.map { now.addingTimeInterval($0) }
        let names = [error.type, error.code].compactMap(\.self)
        return ChappieUsageLimit(
            type: names.first { table.meaning(of: $0) != nil } ?? names.first ?? name,
            message: error.message, plan: error.plan, resetsAt: resetsAt, resetsInSeconds: error.resetsInSeconds,
            rateLimit: snapshot, requestID: fields.requestID, usagePage: usagePage)
    }

    /// Returns the pause that the server requests, in seconds.
    private func retryAfter(_ error: ChappieResponseError, _ fields: HTTPFields, now: Date) -> TimeInterval? {
        fields[.retryAfter].flatMap { RetryAfter.seconds($0, now: now) }
            ?? error.message.flatMap(RetryAfter.seconds(inMessage:))
    }

    private static func withoutTokens(_ response: ChappieResponse) -> ChappieResponse {
        guard var object = response.raw.object, let error = object["error"], response.error != nil,
            let clean = try? ChappieJSON(parsing: UntrustedText.withoutTokens(error.serialized()))
        else { return response }
        object["error"] = clean
        var response = response
        response.raw = .object(object)
        response.error = ChappieResponseError(clean)
        return response
    }

    /// Returns the members of an error's `headers` that are used here.
    private static func fields(in headers: ChappieJSON?) -> HTTPFields {
        let members = (headers?.object?.members ?? []).lazy.filter {
            let name = $0.name.lowercased()
            return name == "retry-after" || name.hasPrefix("x-codex-") || RequestID.names.contains(name)
        }
        var fields: HTTPFields = [:]
        for member in members.prefix(fieldLimit) {
            guard let name = HTTPField.Name(member.name) else { continue }
            fields[name] = member.value.string ?? member.value.double.map { String($0) }
        }
        return fields
    }
}

extension HTTPField.Name {
    /// The field that names the limit that was reached. The name is valid by RFC 9110's grammar. The fallback only
    /// avoids a trap.
    fileprivate static let reachedLimit = HTTPField.Name("x-codex-rate-limit-reached-type") ?? .accept
    /// The field that has the reason of a refusal in Base64.
    fileprivate static let errorJSON = HTTPField.Name("x-error-json") ?? .accept
    /// The field that has the code of a refusal.
    fileprivate static let authorizationError = HTTPField.Name("x-openai-authorization-error") ?? .accept
}
