import ChappieSDK
import FoundationEssentials

// How values look under --json. Stable: members may be added, never renamed or removed.

extension ChappieAccountInfo {
    /// For people: the best name there is.
    var name: String { email ?? accountID ?? "an account without a name" }

    /// ` (ChatGPT Plus)`, or nothing.
    var planInParentheses: String { plan.map { " (\($0.displayName))" } ?? "" }

    var json: ChappieJSON {
        [
            "email": .optional(email), "user_id": .optional(userID), "account_id": .optional(accountID),
            "plan": .optional(plan?.rawValue), "is_fedramp": .bool(isFedRAMPAccount),
        ]
    }
}

extension ChappieUsageWindow {
    var json: ChappieJSON {
        [
            "used_percent": .double(usedPercent), "window_minutes": .optional(windowMinutes),
            "resets_at": .optional(resetsAt?.formatted(.iso8601)),
        ]
    }
}

extension ChappieUsageLimitSnapshot {
    var json: ChappieJSON {
        [
            "limit_id": .string(limitID), "plan": .optional(plan?.rawValue), "primary": primary?.json ?? .null,
            "secondary": secondary?.json ?? .null,
            "credits": credits.map {
                [
                    "has_credits": .bool($0.hasCredits), "unlimited": .bool($0.isUnlimited),
                    "balance": .optional($0.balance),
                ]
            } ?? .null,
        ]
    }
}

extension ChappieModel {
    var json: ChappieJSON {
        [
            "slug": .string(slug), "display_name": .string(displayName), "description": .optional(description),
            "context_window": .optional(contextWindow),
            "default_reasoning_level": .optional(
                defaultReasoningLevel == .automatic ? nil : defaultReasoningLevel.rawValue),
            "supported_reasoning_levels": .array(supportedReasoningLevels.map { .string($0.rawValue) }),
            "input_modalities": .array(inputModalities.map(ChappieJSON.string)),
        ]
    }
}

extension ChappieResponse {
    var json: ChappieJSON {
        [
            "id": .string(id), "status": .string(status.rawValue), "model": .optional(model),
            "text": .string(outputText), "incomplete_reason": .optional(incompleteReason),
            "usage": usage.map {
                [
                    "input_tokens": .integer($0.inputTokens), "cached_input_tokens": .integer($0.cachedInputTokens),
                    "output_tokens": .integer($0.outputTokens), "reasoning_tokens": .integer($0.reasoningTokens),
                    "total_tokens": .integer($0.totalTokens),
                ]
            } ?? .null,
        ]
    }
}

extension ChappieStreamEvent {
    /// One line of a streamed answer.
    var json: ChappieJSON {
        switch self {
        case .created(let id): ["type": "created", "response_id": .string(id)]
        case .textDelta(let text): ["type": "text_delta", "text": .string(text)]
        case .reasoningSummaryDelta(let text): ["type": "reasoning_summary_delta", "text": .string(text)]
        case .usageLimits(let limits): ["type": "usage_limits", "usage_limits": limits.json]
        case .transport(.connected(let kind)): ["type": "connected", "transport": .string(kind.rawValue)]
        case .transport(.waiting(let attempt, let maximum, let delay)):
            Self.delayed("waiting", attempt, maximum, delay)
        case .transport(.reconnecting(let attempt, let maximum, let delay)):
            Self.delayed("reconnecting", attempt, maximum, delay)
        case .transport(.fellBack(let kind)): ["type": "fell_back", "transport": .string(kind.rawValue)]
        case .toolCallRequested(let request): ["type": "tool_call", "call": request.call.json]
        case .approvalRequested(let request): ["type": "approval_requested", "call": request.call.json]
        case .toolCallCompleted(let result):
            [
                "type": "tool_result", "call_id": .string(result.call.callID),
                "outcome": .string(result.outcome.rawValue), "output": .string(result.output),
            ]
        case .item(let item): ["type": "item", "item": item.json]
        case .completed(let response): ["type": "completed", "response": response.json]
        }
    }

    private static func delayed(_ type: String, _ attempt: Int, _ maximum: Int, _ delay: Duration) -> ChappieJSON {
        [
            "type": .string(type), "attempt": .integer(attempt), "maximum": .integer(maximum),
            "seconds": .double(delay.seconds),
        ]
    }
}

extension ChappieToolCall {
    fileprivate var json: ChappieJSON {
        ["call_id": .string(callID), "name": .string(name), "arguments": argumentsJSON ?? .string(arguments)]
    }
}

extension ChappieJSON {
    static func optional(_ text: String?) -> ChappieJSON { text.map(ChappieJSON.string) ?? .null }

    static func optional(_ number: Int?) -> ChappieJSON { number.map(ChappieJSON.integer) ?? .null }
}
