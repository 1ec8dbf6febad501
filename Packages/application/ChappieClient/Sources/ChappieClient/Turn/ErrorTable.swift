/// The meaning of a backend's error codes, as data.
struct ErrorTable: Sendable {
    /// The kinds of errors that the client treats differently.
    enum Meaning: Sendable, Hashable {
        /// The usage limit of the plan is reached. It resets later.
        case usageLimitReached
        /// The plan does not include the request, or its credit is used up. Waiting does not help.
        case quotaExceeded
        /// There are too many requests at present. Another attempt after a pause may succeed.
        case rateLimited
        /// The conversation is longer than the context window of the model.
        case contextWindowExceeded
        /// The model has no capacity. Another model may have some.
        case overloaded
        /// The request or its content was refused. Another attempt does not help.
        case refused
        /// The backend has lost the state of a WebSocket conversation. The sign-in is valid. Sending the complete
        /// request over a new connection helps.
        case conversationLost
        /// The model is retired, or the account may not use it. Another model may answer.
        case modelUnavailable
        /// The backend can't decrypt reasoning that was sent back. The request may succeed without it.
        case unreadableReasoning
        /// A limit of the plan, or of the app's share of it, is reached. The backend does not report which limit it is,
        /// or when it resets.
        case planLimitReached
        /// The user's plan, workspace or settings exclude the app's use of the plan.
        case planNotEligible
        /// The sign-in does not cover the use of the plan.
        case planNotAuthorized
        /// The service has not enabled the app.
        case appNotEnabled
        /// Plan use can't be checked or routed at the moment. The sign-in is valid, and a later attempt may succeed.
        case planUnavailable
        /// The service can't attribute the request to a user. A new sign-in is not known to help.
        case planUserUnknown
        /// The request has a member, a tool or an input that may not be used on the plan.
        case capabilityUnsupported
        /// The address or the method may not be used on the plan.
        case routeUnsupported
        /// The workspace of the sign-in can't be used. A sign-in in another workspace may help.
        case workspaceUnavailable
        /// A policy forbids the request, for example in the user's region.
        case policyForbids
        /// The access token has expired or is not valid any more. A renewed token helps.
        case accessTokenRefused
    }

    /// The meanings by `error.code` or `error.type`, in lower case.
    let meanings: [String: Meaning]
    /// The meanings by the status of an answer whose body is `{"detail":…}` and names no known code.
    var detailMeanings: [Int: Meaning] = [:]

    /// Returns the meaning of the first code that has one, or `nil` if none has.
    func meaning(of codes: String?...) -> Meaning? {
        for case let code? in codes {
            if let meaning = meanings[code.lowercased()] { return meaning }
        }
        return nil
    }

    /// The table of the ChatGPT/Codex backend.
    static let chatGPT = ErrorTable(meanings: [
        "usage_limit_reached": .usageLimitReached, "usage_not_included": .quotaExceeded,
        "insufficient_quota": .quotaExceeded, "credit_balance_exhausted": .quotaExceeded,
        "organization_spend_limit_exceeded": .quotaExceeded, "project_spend_limit_exceeded": .quotaExceeded,
        "organization_usage_limit_exceeded": .quotaExceeded,
        "workspace_owner_credits_depleted": .quotaExceeded, "workspace_member_credits_depleted": .quotaExceeded,
        "workspace_owner_usage_limit_reached": .usageLimitReached,
        "workspace_member_usage_limit_reached": .usageLimitReached,
        "rate_limit_exceeded": .rateLimited, "slow_down": .rateLimited,
        "context_length_exceeded": .contextWindowExceeded,
        "server_is_overloaded": .overloaded,
        "cyber_policy": .refused, "bio_policy": .refused, "misalignment_policy_violation": .refused,
        "invalid_prompt": .refused, "model_not_found": .modelUnavailable,
        "invalid_encrypted_content": .unreadableReasoning,
        "deactivated_workspace": .workspaceUnavailable, "workspace_deactivated": .workspaceUnavailable,
        "invalid_workspace_selected": .workspaceUnavailable,
        "websocket_connection_limit_reached": .conversationLost, "previous_response_not_found": .conversationLost,
    ])

    /// The table of the Responses API on the user's plan. The names that begin with `subscription_sharing_v2_` are
    /// older names of the same codes.
    static let chatGPTPlan: ErrorTable = {
        let sharing: [String: Meaning] = [
            "usage_limit_exceeded": .planLimitReached, "usage_unavailable": .planUnavailable,
            "user_unavailable": .planUnavailable, "user_not_eligible": .planNotEligible,
            "unsupported_capability": .capabilityUnsupported, "route_not_supported": .routeUnsupported,
            "invalid_user": .planUserUnknown, "client_not_enabled": .appNotEnabled,
        ]
        var meanings = chatGPT.meanings
        for (name, meaning) in sharing {
            meanings["subscription_sharing_" + name] = meaning
            meanings["subscription_sharing_v2_" + name] = meaning
        }
        meanings["chatpass_v2_scope_not_authorized"] = .planNotAuthorized
        meanings["chatpass_v2_invalid_authorization_context"] = .planNotAuthorized
        meanings["invalid_token"] = .accessTokenRefused
        return ErrorTable(
            meanings: meanings,
            detailMeanings: [
                400: .capabilityUnsupported, 401: .planNotAuthorized, 403: .policyForbids, 503: .planUnavailable,
            ])
    }()
}
