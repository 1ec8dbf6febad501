#if Observability
    public import ChappieCore
    public import Metrics
    public import Tracing

    /// An observer that reports metrics to swift-metrics, and spans to swift-distributed-tracing.
    ///
    /// ```swift
    /// MetricsSystem.bootstrap(…)          // Your backends, before the observer.
    /// InstrumentationSystem.bootstrap(…)
    /// Chappie.observe(with: ChappieObservability())
    /// ```
    /// No metric and no span has a text of the user, the model or a tool, a token, or an address of a person. Nothing is
    /// sent to the model service.
    public final class ChappieObservability: ChappieObserver {
        let instruments: Instruments
        let models = BoundedNames()
        private let tools = BoundedNames()
        private let kinds = BoundedNames()
        let agentName: String?
        private let toolNames: Set<String>
        private let tracer: (any Tracer)?

        /// Creates an observer.
        ///
        /// - Parameters:
        ///   - agentName: The name of the agent, which is the same for all users. It is the value of
        ///     `gen_ai.agent.name`. Default none.
        ///   - toolNames: The names of tools of Model Context Protocol servers and other providers that are reported. All
        ///     others of these are reported as `mcp`, because a server may invent names. The tools that the program
        ///     declares itself are always reported. Default none.
        ///   - factory: The backend of the metrics. Default: the one of `MetricsSystem`.
        ///   - tracer: The backend of the spans. Default: the one of `InstrumentationSystem`.
        public init(
            agentName: String? = nil, toolNames: Set<String> = [], factory: (any MetricsFactory)? = nil,
            tracer: (any Tracer)? = nil
        ) {
            self.agentName = agentName
            self.toolNames = toolNames
            self.tracer = tracer
            instruments = Instruments(factory: factory ?? MetricsSystem.factory)
        }

        public func began(
            _ operation: ChappieOperation, in parent: (any ChappieObservation)?
        ) -> (any ChappieObservation)? {
            let context = (parent as? ObservedOperation)?.span?.context ?? .current ?? .topLevel
            switch operation {
            case .turn:
                instruments.change(by: 1, Name.turnsActive)
                let agent: Dimensions = agentName.map { [(Name.agent, $0)] } ?? []
                return ObservedOperation(
                    .turn, agent, self,
                    span("invoke_agent", agentName, .internal, context, agent + [(Name.operation, "invoke_agent")]))
            case .request(let request):
                let model = models.name(request.model)
                let dimensions: Dimensions = [
                    (Name.operation, "chat"), (Name.provider, "openai"), (Name.requestModel, model),
                    (Name.host, request.host), (Name.port, String(request.port)),
                ]
                let span = span("chat", model, .client, context, dimensions)
                span.attributes[Name.port] = request.port
                span.attributes["gen_ai.request.stream"] = true
                span.attributes["gen_ai.output.type"] = request.isStructured ? "json" : "text"
                span.attributes["openai.api.type"] = "responses"
                if let tier = request.serviceTier {
                    span.attributes["openai.request.service_tier"] = tier.rawValue
                }
                return ObservedOperation(.request, dimensions, self, span)
            case .tool(let tool):
                let name = name(of: tool)
                let dimensions: Dimensions = [(Name.tool, name), (Name.toolType, "function")]
                let span = span(
                    "execute_tool", name, .internal, context, dimensions + [(Name.operation, "execute_tool")])
                if let id = tool.callID { span.attributes["gen_ai.tool.call.id"] = id }
                return ObservedOperation(.tool, dimensions, self, span)
            case .renewal(let reason):
                let dimensions: Dimensions = [("reason", reason.rawValue)]
                return ObservedOperation(
                    .renewal, dimensions, self,
                    span("chappie.credential.renew", nil, .internal, context, dimensions))
            case .threadAppend(let store, let byteCount):
                let dimensions: Dimensions = [("store", store.rawValue)]
                instruments.record(Double(byteCount), Name.appendBytes, dimensions)
                return ObservedOperation(.threadAppend, dimensions, self, nil)
            }
        }

        public func happened(_ fact: ChappieFact) {
            switch fact {
            case .turnsWaiting(let change): instruments.change(by: change, Name.turnsWaiting)
            case .connectionsOpen(let kind, let change):
                instruments.change(by: change, Name.connections, [("transport", kind.rawValue)])
            case .notice(let kind): instruments.count(Name.notices, [("kind", kinds.name(kind.rawValue))])
            case .planUsed(let window, let fraction):
                instruments.record(fraction, Name.planUsed, [("window", window.rawValue)])
            case .planLimitReached: instruments.count(Name.limitReached)
            case .approvalsWaiting(let change): instruments.change(by: change, Name.approvalsWaiting)
            case .approvalDecided(let decision):
                instruments.count(Name.approvals, [("decision", decision.rawValue)])
            case .renewalTakenOver(let reason):
                instruments.count(Name.renewals, [("reason", reason.rawValue), ("outcome", "taken_over")])
            case .lockAwaited(let duration, let isHeld):
                instruments.record(duration, Name.lockWait, [("outcome", isHeld ? "held" : "busy")])
            case .credentialOvertaken: instruments.count(Name.overtaken)
            case .signInEnded(let grant, let outcome):
                instruments.count(Name.signIns, [("grant", grant.rawValue), ("outcome", outcome.rawValue)])
            case .signOutEnded(let outcome): instruments.count(Name.signOuts, [("outcome", outcome.rawValue)])
            case .threadConflict(let store): instruments.count(Name.conflicts, [("store", store.rawValue)])
            case .postgresPoolAwaited(let duration): instruments.record(duration, Name.poolWait)
            case .postgresConnections(let state, let change):
                instruments.change(by: change, Name.poolConnections, [("state", state.rawValue)])
            case .postgresRetried(let reason): instruments.count(Name.retries, [("reason", reason.rawValue)])
            }
        }

        private func name(of tool: ChappieObservedTool) -> String {
            tool.isFromProvider && !toolNames.contains(tool.name) ? "mcp" : tools.name(tool.name)
        }

        private func span(
            _ operation: String, _ subject: String?, _ kind: SpanKind, _ context: ServiceContext,
            _ dimensions: Dimensions
        ) -> any Span {
            let name = subject.map { "\(operation) \($0)" } ?? operation
            let span = (tracer ?? InstrumentationSystem.tracer).startSpan(name, context: context, ofKind: kind)
            for (name, value) in dimensions { span.attributes[name] = value }
            return span
        }
    }
#endif
