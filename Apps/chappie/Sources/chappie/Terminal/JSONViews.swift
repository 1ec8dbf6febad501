@_spi(ChappieInternals) import ChappieCore
import ChappieSDK
import FoundationEssentials

// The form of values under --json. It is stable: members may be added, but are never renamed or removed.

extension ChappieAccountInfo {
    /// The best known name for notes to the user.
    var name: String { email ?? accountID ?? userID ?? "an account without a name" }

    /// The plan as ` (ChatGPT Plus)`, or an empty text.
    var planInParentheses: String { plan.map { " (\($0.displayName))" } ?? "" }

    var json: ChappieJSON {
        var object: ChappieJSONObject = [
            "email": .optional(email), "user_id": .optional(userID), "account_id": .optional(accountID),
            "plan": .optional(plan?.rawValue), "is_fedramp": .bool(isFedRAMPAccount),
        ]
        // Only a sign-in that requests this permission has a value.
        if let residency { object["residency"] = .string(residency) }
        if let planUse { object["plan_use"] = planUse == .granted ? "granted" : "not_granted" }
        return .object(object)
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
            "secondary": secondary?.json ?? .null, "credits": credits?.json ?? .null,
            "limit_name": .optional(limitName), "normal_model": .optional(normalModel),
            "additional": .array(additional.map(\.json)),
            "spend_control": spendControl?.json ?? .null, "reached_type": .optional(reachedType?.rawValue),
            "available_resets": .optional(availableResets), "promotion": .optional(promotion),
            "models": .array(models.map(\.json)),
        ]
    }

    /// The limits with the reset credits, which are `nil` if they are not known.
    func json(_ credits: [ChappieResetCredit]?) -> ChappieJSON {
        var object = json.object ?? ChappieJSONObject()
        object["reset_credits"] = credits.map { .array($0.map(\.json)) } ?? .null
        return .object(object)
    }
}

extension ChappieUsageCredits {
    fileprivate var json: ChappieJSON {
        func range(_ numbers: [Int]?) -> ChappieJSON { numbers.map { .array($0.map(ChappieJSON.integer)) } ?? .null }
        return [
            "has_credits": .bool(hasCredits), "unlimited": .bool(isUnlimited), "balance": .optional(balance),
            "approximate_local_messages": range(approximateLocalMessages),
            "approximate_cloud_messages": range(approximateCloudMessages),
            "overage_limit_reached": isOverageLimitReached.map(ChappieJSON.bool) ?? .null,
        ]
    }
}

extension ChappieModelUsage {
    fileprivate var json: ChappieJSON {
        [
            "slug": .string(slug), "available": .bool(isAvailable),
            "available_at": .optional(availableAt?.formatted(.iso8601)),
            "credits_would_enable": .bool(creditsWouldEnable),
        ]
    }
}

extension ChappieSpendControl {
    fileprivate var json: ChappieJSON {
        [
            "reached": .bool(isReached), "limit": .optional(limit), "used": .optional(used),
            "remaining": .optional(remaining), "used_percent": usedPercent.map(ChappieJSON.double) ?? .null,
            "resets_at": .optional(resetsAt?.formatted(.iso8601)),
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
            "max_context_window": .optional(maximumContextWindow),
            "supports_search_tool": .bool(supportsSearchTool),
            "supports_parallel_tool_calls": .bool(supportsParallelToolCalls),
            "uses_responses_lite": .bool(usesResponsesLite), "supports_verbosity": .bool(supportsVerbosity),
            "supports_reasoning_summaries": .bool(takesReasoningSummary),
            "minimal_client_version": .optional(minimalClientVersion),
            "default_verbosity": .optional(defaultVerbosity?.rawValue),
            "availability_note": .optional(availabilityNote),
            "upgrade": upgrade.map {
                [
                    "model": .string($0.model), "notes": .optional($0.notes),
                    "retirement_at": .optional($0.retirementAt?.formatted(.iso8601)),
                ]
            } ?? .null,
        ]
    }
}

extension ChappieResponse {
    var json: ChappieJSON {
        var object: ChappieJSONObject = [
            "id": .string(id), "status": .string(status.rawValue), "model": .optional(model),
            "text": .string(outputText), "commentary": .string(commentary),
            "incomplete_reason": .optional(incompleteReason),
            "usage": usage?.json ?? .null,
        ]
        if !refusals.isEmpty { object["refusals"] = .array(refusals.map(ChappieJSON.string)) }
        return .object(object)
    }
}

extension ChappieTokenUsage {
    var json: ChappieJSON {
        [
            "input_tokens": .integer(inputTokens), "cached_input_tokens": .integer(cachedInputTokens),
            "output_tokens": .integer(outputTokens), "reasoning_tokens": .integer(reasoningTokens),
            "total_tokens": .integer(totalTokens),
        ]
    }

    /// The counts as `1200 tokens: 1000 in (of them 800 cached), 200 out (of them 150 reasoning)`.
    var sentence: String {
        let cached = cachedInputTokens > 0 ? " (of them \(cachedInputTokens) cached)" : ""
        let reasoning = reasoningTokens > 0 ? " (of them \(reasoningTokens) reasoning)" : ""
        return "\(totalTokens) tokens: \(inputTokens) in\(cached), \(outputTokens) out\(reasoning)"
    }
}

extension ChappieStreamEvent {
    /// The event as one line of a streamed answer.
    var json: ChappieJSON {
        switch self {
        case .created(let id): ["type": "created", "response_id": .string(id)]
        case .textDelta(let text): ["type": "text_delta", "text": .string(text)]
        case .commentaryDelta(let text): ["type": "commentary_delta", "text": .string(text)]
        case .restarted(let discarded): ["type": "restarted", "discarded": .string(discarded)]
        case .reasoningSummaryDelta(let text): ["type": "reasoning_summary_delta", "text": .string(text)]
        case .toolArgumentsDelta(let piece):
            [
                "type": "tool_arguments_delta", "call_id": .string(piece.callID), "name": .string(piece.name),
                "delta": .string(piece.delta),
            ]
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
        case .notice(let notice):
            ["type": "notice", "kind": .string(notice.kind.rawValue), "message": .string(notice.message)]
        case .steered(let message): ["type": "steered", "text": .string(message.text)]
        case .item(let item): ["type": "item", "item": item.shown]
        case .completed(let response): ["type": "completed", "response": response.json]
        }
    }

    private static func delayed(_ type: String, _ attempt: Int, _ maximum: Int, _ delay: Duration) -> ChappieJSON {
        [
            "type": .string(type), "attempt": .integer(attempt), "maximum": .integer(maximum),
            "seconds": .double(delay.inSeconds),
        ]
    }
}

extension ChappieOutputItem {
    /// The item without the marks of sources in its text.
    fileprivate var shown: ChappieJSON {
        guard type == "message", var item = json.object, let parts = item["content"]?.array else { return json }
        item["content"] = .array(
            parts.map { part in
                guard let text = part["text"]?.string, var shown = part.object else { return part }
                shown["text"] = .string(SourceMarks.removed(from: text))
                return .object(shown)
            })
        return .object(item)
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
