@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import FoundationEssentials
import HTTPTypes
import TestFixtures
import Testing

@testable import ChappieClient

/// The backend adds members, takes some away, and empties lists: nothing of that traps, and what is still said is understood.
@Suite struct GrownAnswerTests {
    // MARK: Events

    private static func message(_ text: String, _ phase: String, _ id: String) -> [ChappieJSON] {
        var item: ChappieJSONObject = [
            "id": .string(id), "type": "message", "status": "in_progress", "role": "assistant",
            "phase": .string(phase), "content": [],
        ]
        let added: ChappieJSON = .object(item)
        item["content"] = [["type": "output_text", "text": .string(text), "annotations": [], "logprobs": []]]
        return [
            ["type": "response.output_item.added", "output_index": 0, "item": added],
            [
                "type": "response.output_text.delta", "item_id": .string(id), "output_index": 0, "content_index": 0,
                "delta": .string(text), "logprobs": [],
            ],
            ["type": "response.output_item.done", "output_index": 0, "item": .object(item)],
        ]
    }

    private static let usage: ChappieJSON = [
        "input_tokens": 10, "input_tokens_details": ["cached_tokens": 4], "output_tokens": 5,
        "output_tokens_details": ["reasoning_tokens": 2], "total_tokens": 15,
    ]

    /// A whole answer.
    private static let events: [ChappieJSON] =
        [
            ["type": "response.created", "response": ["id": "r", "status": "in_progress", "output": []]],
            [
                "type": "codex.response.metadata",
                "headers": ["x-codex-turn-state": "ts", "x-models-etag": "\"1\"", "openai-model": ["gpt-6-sol"]],
            ],
            [
                "type": "codex.rate_limits", "plan_type": "plus",
                "rate_limits": ["primary": ["used_percent": 12, "window_minutes": 300, "reset_at": 1_795_200_000]],
                "credits": ["has_credits": false, "unlimited": false, "balance": "0"],
            ],
            [
                "type": "response.output_item.done",
                "item": [
                    "id": "rs_1", "type": "reasoning", "summary": [["type": "summary_text", "text": "Hm."]],
                    "encrypted_content": "x",
                ],
            ],
            ["type": "response.reasoning_summary_text.delta", "item_id": "rs_1", "summary_index": 0, "delta": "Hm."],
        ] + message("I look.", "commentary", "msg_1") + message("Four.", "final_answer", "msg_2") + [
            [
                "type": "response.completed",
                "response": [
                    "id": "r", "status": "completed", "model": "gpt-6-sol", "end_turn": true, "output": [],
                    "usage": usage, "error": nil, "incomplete_details": nil,
                ],
            ]
        ]

    /// What a host is shown of the events; `nil` if they have no end.
    private static func told(_ events: [ChappieJSON]) throws -> (
        response: ChappieResponse?, shown: [ChappieStreamEvent]
    ) {
        var shown: [ChappieStreamEvent] = []
        var accumulator = TurnAccumulator { shown.append($0) }
        accumulator.attemptBegan()
        var response: ChappieResponse?
        for event in events {
            // As a transport reads them: what is no event is passed over.
            guard let event = try? ResponsesEvent.parse(event.serialized()) else { continue }
            switch try accumulator.received([event]) {
            case .completed(let whole): response = whole
            case nil: continue
            default: Issue.record("another end: \(event)")
            }
        }
        return (response, shown)
    }

    @Test func aGrownEventChangesNothingOfTheRest() throws {
        let (response, _) = try Self.told(Self.events)
        #expect(response?.outputText == "Four." && response?.commentary == "I look.")
        for (index, event) in Self.events.enumerated() {
            for variant in GrownAnswer.all(of: event) {
                var events = Self.events
                events[index] = variant.json
                let (grown, shown) = try Self.told(events)
                let isEnd = index == events.count - 1
                if variant.path == ["type"], isEnd {
                    #expect(grown == nil)
                    continue
                }
                let text = try #require(grown, "\(index): \(variant)").outputText
                let isOfTheAnswer = (8...10).contains(index) || (5...7).contains(index)
                if variant.change == .memberAdded {
                    #expect(grown?.commentary == "I look." && text == "Four.", "\(index): \(variant)")
                    #expect(grown?.usage == response?.usage)
                } else if !isOfTheAnswer {
                    #expect(text == "Four.", "\(index): \(variant)")
                } else {
                    #expect(text.contains("Four."), "\(index): \(variant)")
                }
                // A delta is never empty, and an answer is never shown twice.
                for case .textDelta(let delta) in shown { #expect(!delta.isEmpty) }
                for case .commentaryDelta(let delta) in shown { #expect(!delta.isEmpty) }
            }
        }
    }

    /// A call that does not say what it is for is the one thing that a turn can't go on from.
    @Test func aGrownCallIsStillACall() {
        let call: ChappieJSON = [
            "id": "fc_1", "type": "function_call", "status": "completed", "name": "count", "namespace": "functions",
            "call_id": "call_1", "arguments": "{}",
        ]
        for variant in GrownAnswer.all(of: call) {
            let item = ChappieOutputItem(variant.json)
            let isNeeded =
                variant.change != .memberAdded && ["name", "call_id", "type", "arguments"].contains(variant.path)
            #expect(isNeeded || ChappieToolCall(item)?.name == "count", "\(variant)")
        }
    }

    // MARK: Lists and usage

    private static let list: ChappieJSON = [
        "models": [
            [
                "slug": "gpt-6.1-sol", "display_name": "GPT-6.1 Sol", "description": "d", "visibility": "list",
                "priority": 1, "supported_in_api": true, "input_modalities": ["text", "image"],
                "supported_reasoning_levels": [["effort": "low", "description": "d"], ["effort": "max"]],
                "default_reasoning_level": "low", "context_window": 400_000, "use_responses_lite": true,
                "upgrade": ["model": "gpt-7", "migration_markdown": "m"], "availability_nux": ["message": "m"],
                "available_in_plans": ["plus"], "comp_hash": "3000",
            ],
            ["slug": "gpt-6-luna", "priority": 4],
        ]
    ]

    @Test func aGrownListIsStillAList() throws {
        for variant in GrownAnswer.all(of: Self.list) {
            let models = ChappieModel.list(variant.json)
            if variant.path == ["models"] {
                #expect((models == nil) == (variant.change != .arrayEmptied), "\(variant)")
                continue
            }
            let usable = try #require(models, "\(variant)").filter(ChappieModelFilter.textInAPI.matches).map(\.slug)
            let isGone = variant.path == ["models", "0", "slug"] && variant.change != .memberAdded
            let other = variant.path == ["models", "1", "slug"] && variant.change != .memberAdded
            #expect(usable.contains("gpt-6.1-sol") != isGone, "\(variant)")
            #expect(usable.contains("gpt-6-luna") != other, "\(variant)")
        }
    }

    private static let usageBody: ChappieJSON = [
        "plan_type": "plus",
        "rate_limit": [
            "allowed": true, "limit_reached": false,
            "primary_window": ["used_percent": 12, "limit_window_seconds": 18_000, "reset_at": 1_795_200_000],
            "secondary_window": ["used_percent": 3, "limit_window_seconds": 604_800, "reset_at": 1_795_600_000],
        ],
        "credits": ["has_credits": true, "unlimited": false, "balance": "12.30", "approx_local_messages": [1, 2]],
        "additional_rate_limits": [
            [
                "limit_name": "Luna", "metered_feature": "luna", "normal_model_slug": "gpt-6-luna",
                "rate_limit": ["primary_window": ["used_percent": 5]],
            ]
        ],
        "spend_control": ["reached": false, "individual_limit": ["limit": "10", "used": "1"]],
        "rate_limit_reached_type": ["type": "x"], "rate_limit_reset_credits": ["available_count": 1],
    ]

    @Test func grownUsageIsStillUsage() throws {
        let whole = try #require(ChappieUsageLimitSnapshot(usageBody: Self.usageBody))
        for variant in GrownAnswer.all(of: Self.usageBody) {
            let usage = try #require(ChappieUsageLimitSnapshot(usageBody: variant.json), "\(variant)")
            if variant.change == .memberAdded { #expect(usage == whole, "\(variant)") }
            if !variant.path.starts(with: ["rate_limit"]) { #expect(usage.primary == whole.primary, "\(variant)") }
            if variant.path != ["plan_type"] { #expect(usage.plan == .plus, "\(variant)") }
        }
    }

    @Test func headersOfLimitsMayBeEmptyOrNull() {
        let headers = [
            "x-codex-primary-used-percent": "12.5", "x-codex-primary-window-minutes": "300",
            "x-codex-primary-reset-at": "1795200000", "x-codex-secondary-used-percent": "3",
            "x-codex-credits-has-credits": "false", "x-codex-credits-balance": "1", "x-codex-limit-name": "Codex",
            "x-codex-active-limit": "codex", "x-codex-rate-limit-reached-type": "x", "x-codex-promo-message": "m",
        ]
        func snapshot(_ headers: [String: String]) -> ChappieUsageLimitSnapshot? {
            var fields: HTTPFields = [:]
            for (name, value) in headers { HTTPField.Name(name).map { fields[$0] = value } }
            return ChappieUsageLimitSnapshot(headerFields: fields)
        }
        for name in headers.keys {
            for value in ["", "null", "[]", "{}", "-", "1e999"] {
                var changed = headers
                changed[name] = value
                let isPrimary = name == "x-codex-primary-used-percent"
                #expect(snapshot(changed)?.primary?.usedPercent == (isPrimary ? nil : 12.5), "\(name): \(value)")
                #expect(snapshot(changed)?.limitID == "codex")
            }
        }
    }

    // MARK: Errors

    static let errors: [(status: Int, body: ChappieJSON)] = [
        (
            429,
            [
                "error": [
                    "type": "usage_limit_reached", "plan_type": "plus", "resets_at": 1_795_200_000,
                    "resets_in_seconds": 60,
                ]
            ]
        ),
        (
            400,
            [
                "error": [
                    "message": "Too long.", "type": "invalid_request_error", "param": nil,
                    "code": "context_length_exceeded",
                ]
            ]
        ),
        (400, ["detail": "The 'x' model is not supported when using Codex with a ChatGPT account."]),
        (
            404,
            ["error": ["message": "Model not found x", "type": "invalid_request_error", "param": "model", "code": nil]]
        ),
        (422, ["detail": [["loc": ["body", "input"], "msg": "field required", "type": "value_error"]]]),
        (503, ["error": ["code": "server_is_overloaded", "message": "m"], "headers": ["retry-after": ["3"]]]),
    ]

    @Test(arguments: errors) func aGrownErrorIsStillTheSameError(status: Int, body: ChappieJSON) throws {
        let errors = BackendErrors(.chatGPT)
        let now = Date(timeIntervalSince1970: 1_795_176_000)
        func failure(_ json: ChappieJSON) -> AttemptFailure {
            errors.failure(status: status, headerFields: [:], body: json.serializedBytes(), now: now)
        }
        for variant in GrownAnswer.all(of: body) {
            let failure = failure(variant.json)
            let error = try #require(failure.error as? ChappieClientError, "\(variant)")
            #expect(error.errorDescription?.isEmpty == false && error.recoverySuggestion?.isEmpty == false)
            if variant.change == .memberAdded {
                #expect(failure.kind == self.kind(body, status, now, errors), "\(variant)")
            }
            // The same as an error frame, and as a response that failed.
            let frame: ChappieJSON = [
                "type": "error", "status": .integer(status), "error": variant.json["error"] ?? .null,
            ]
            guard case .error(let event)? = try ResponsesEvent.parse(frame.serialized()) else { continue }
            _ = errors.failure(event, now: now)
            let response = ChappieResponse(["id": "r", "error": variant.json["error"] ?? .null], .failed)
            #expect(errors.failure(response, now: now).error is ChappieClientError)
        }
    }

    private func kind(
        _ body: ChappieJSON, _ status: Int, _ now: Date, _ errors: BackendErrors
    ) -> AttemptFailure.Kind {
        errors.failure(status: status, headerFields: [:], body: body.serializedBytes(), now: now).kind
    }
}
