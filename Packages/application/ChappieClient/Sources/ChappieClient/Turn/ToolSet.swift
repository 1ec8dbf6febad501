import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieJSONSchema

/// The tools of one turn, with their declarations to the model and their handlers.
struct ToolSet: Sendable {
    /// The identity of a tool in a call.
    struct Key: Hashable {
        var namespace: String?
        var name: String

        init(namespace: String?, name: String) {
            self.namespace = namespace
            self.name = name
        }

        init(_ tool: ChappieHostTool) { self.init(namespace: tool.namespace, name: tool.name) }

        /// The name of the tool if it is declared without a namespace.
        var flatName: String {
            let whole = namespace.map { "\($0)__\(name)" } ?? name
            return ToolName.isValid(whole) ? whole : name
        }
    }

    private var order: [Key] = []
    private(set) var declarations: [Key: ChappieHarnessTool] = [:]
    private var handlers: [Key: ChappieHostTool] = [:]
    /// The functions that a provider has declared. They can be deferred.
    private var deferrable: Set<Key> = []
    /// The search for the deferred tools, or `nil` if there are none.
    private(set) var search: ToolSearch?
    /// The tools that a request does not declare.
    private var undeclared: Set<Key> = []

    /// The maximum number of tools that the plan's route takes.
    static let planLimit = 128

    /// Creates a set of tools. Among tools of the same name, the first counts: the harness's declaration, then the
    /// host's tools, then the providers'.
    ///
    /// - Parameter checked: the declarations of the previous turn. A declaration that did not change is not checked
    ///   again.
    /// - Throws: ``ChappieClientError/invalidTool(_:_:)`` for a name that the backend refuses, or a schema that can't
    ///   be used.
    init(
        harness: ChappieHarness, tools: [ChappieHostTool], checked: [Key: ChappieHarnessTool]
    ) throws(ChappieClientError) {
        func declare(_ tool: ChappieHarnessTool, in namespace: String?) throws(ChappieClientError) {
            let key = Key(namespace: namespace, name: tool.name)
            guard declarations[key] == nil else { return }
            if checked[key] != tool { try tool.check() }
            declarations[key] = tool
            order.append(key)
        }
        for tool in harness.allTools { try declare(tool, in: nil) }
        for tool in tools {
            let key = Key(tool)
            guard handlers[key] == nil else { continue }
            handlers[key] = tool
            if tool.isDeferrable, tool.textFormat == nil, declarations[key] == nil { deferrable.insert(key) }
            try declare(
                ChappieHarnessTool(
                    name: tool.name, description: tool.description, inputSchema: tool.inputSchema,
                    textFormat: tool.textFormat),
                in: tool.namespace)
        }
    }

    /// Defers the functions of providers if there are many tools or large ones, or in any case if `always` is `true`.
    ///
    /// - Parameters:
    ///   - chosen: the name of a tool that the request must declare, because the model must call it.
    ///   - known: the search of the previous turn. Its index is used again if the tools are the same.
    mutating func deferTools(except chosen: String?, always: Bool, known: ToolSearch?) {
        let keys = order.filter { deferrable.contains($0) && $0.name != chosen }
        let isDeferred =
            always
            || !keys.isEmpty
                && (order.count >= ToolSearch.toolLimit || declaredByteCount >= ToolSearch.byteLimit)
        guard isDeferred else { return }
        let tools = keys.compactMap { key in
            declarations[key].map {
                ToolSearch.Tool(key: key, about: handlers[key]?.aboutNamespace ?? "", declaration: $0)
            }
        }
        search = known?.tools == tools ? known : ToolSearch(tools)
        undeclared = Set(keys)
    }

    /// The size of all declarations in bytes.
    private var declaredByteCount: Int {
        order.reduce(0) { $0 + (declarations[$1]?.declared().serializedBytes().count ?? 0) }
    }

    /// Declares only the first `count` tools.
    ///
    /// - Returns: the other tools.
    mutating func declareFirst(_ count: Int) -> [Key] {
        let others = Array(order.dropFirst(count))
        undeclared = Set(others)
        return others
    }

    /// Returns the tools in the form in which a request declares them, always in the same order. The search for the
    /// deferred tools is the last one.
    ///
    /// - Parameter inNamespace: whether tools without a namespace are put into the one called `functions`. If not, and
    ///   `onPlan` is `true`, no tool is in a namespace, because the backend has refused them.
    func declared(onPlan: Bool, inNamespace: Bool) -> [ChappieJSON] {
        let order = order.filter { !undeclared.contains($0) }
        if onPlan, !inNamespace {
            return order.compactMap { key in declarations[key]?.declared(name: key.flatName) }
        }
        var namespaces: [String] = []
        for key in order { if let name = key.namespace, !namespaces.contains(name) { namespaces.append(name) } }
        func list(_ namespace: String?) -> [ChappieJSON] {
            order.filter { $0.namespace == namespace }.compactMap { declarations[$0]?.declared() }
        }
        func namespace(_ name: String, _ description: String, _ tools: [ChappieJSON]) -> ChappieJSON {
            [
                "type": "namespace", "name": .string(name), "description": .string(description),
                "tools": .array(tools),
            ]
        }
        let own = list(nil)
        let about = onPlan ? "Tools of this app." : ""
        return (inNamespace && !own.isEmpty ? [namespace(ToolName.noGroup, about, own)] : own)
            + namespaces.map { name in
                let about = handlers.values.first { $0.namespace == name && !$0.aboutNamespace.isEmpty }?.aboutNamespace
                return namespace(name, about ?? "Tools of \(name).", list(name))
            } + (search.map { [$0.declaration] } ?? [])
    }

    /// Returns the tool that handles `call`. The model knows its schema.
    func tool(for call: ChappieToolCall) -> ChappieHostTool? {
        let named = Key(namespace: call.namespace, name: call.name)
        // A tool of a namespace may have been declared without the namespace.
        let isFlat = handlers[named] == nil && call.namespace == nil
        let key = isFlat ? order.first { handlers[$0] != nil && $0.flatName == call.name } : named
        guard let key, var tool = handlers[key] else { return nil }
        if let declared = declarations[key] {
            tool.inputSchema = declared.inputSchema
            tool.textFormat = declared.textFormat
            if !declared.description.isEmpty { tool.description = declared.description }
        }
        return tool
    }
}

extension ChappieHarnessTool {
    /// Returns the declaration of the tool.
    ///
    /// - Parameter isDeferred: whether a search for tools returns it.
    func declared(name flatName: String? = nil, isDeferred: Bool = false) -> ChappieJSON {
        let type = textFormat == nil ? "function" : "custom"
        var tool = ChappieJSONObject([
            ("type", .string(type)), ("name", .string(flatName ?? name)), ("description", .string(description)),
        ])
        if let textFormat {
            tool["format"] = textFormat.json
        } else {
            tool["strict"] = false
            if isDeferred { tool["defer_loading"] = true }
            tool["parameters"] = ChappieJSONSchema(inputSchema).toolParameters
        }
        return .object(tool)
    }
}
