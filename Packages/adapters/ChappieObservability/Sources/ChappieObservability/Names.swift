#if Observability
    import Tracing

    /// The names of metrics, dimensions and attributes.
    ///
    /// The names that begin with `gen_ai` and `openai` are those of OpenTelemetry's conventions for generative AI, in the
    /// repository open-telemetry/semantic-conventions-genai: gen-ai-metrics.md at commit 004902b8, gen-ai-spans.md and
    /// openai.md at 002c8a6e. Their status is Development, so that they may change.
    enum Name {
        // MARK: Metrics

        static let operationDuration = "gen_ai.client.operation.duration"
        static let tokenUsage = "gen_ai.client.token.usage"
        static let timeToFirstChunk = "gen_ai.client.operation.time_to_first_chunk"
        static let agentDuration = "gen_ai.invoke_agent.duration"
        static let toolDuration = "gen_ai.execute_tool.duration"
        static let turnsActive = "chappie.turns.active"
        static let turnsWaiting = "chappie.turns.waiting"
        static let attempts = "chappie.turn.attempts"
        static let replays = "chappie.turn.replays"
        static let connections = "chappie.connections.open"
        static let renewals = "chappie.credential.renewals"
        static let lockWait = "chappie.credential.lock.wait"
        static let overtaken = "chappie.credential.overtaken"
        static let signIns = "chappie.credential.sign_ins"
        static let signOuts = "chappie.credential.sign_outs"
        static let approvalsWaiting = "chappie.tool.approvals.waiting"
        static let approvals = "chappie.tool.approvals"
        static let planUsed = "chappie.plan.used"
        static let limitReached = "chappie.plan.limit_reached"
        static let notices = "chappie.notices"
        static let appendDuration = "chappie.threads.append.duration"
        static let appendBytes = "chappie.threads.append.bytes"
        static let conflicts = "chappie.threads.conflicts"
        static let poolWait = "chappie.postgres.pool.wait"
        static let poolConnections = "chappie.postgres.connections"
        static let retries = "chappie.postgres.retries"

        // MARK: Dimensions and attributes

        static let agent = "gen_ai.agent.name"
        static let operation = "gen_ai.operation.name"
        static let provider = "gen_ai.provider.name"
        static let requestModel = "gen_ai.request.model"
        static let responseModel = "gen_ai.response.model"
        static let tokenType = "gen_ai.token.type"
        static let tool = "gen_ai.tool.name"
        static let toolType = "gen_ai.tool.type"
        static let host = "server.address"
        static let port = "server.port"
        static let errorType = "error.type"
        /// The mark of OpenTelemetry's metrics SDK for values beyond a limit of series.
        static let overflow = "otel.metric.overflow"
    }
#endif
