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
            try declare(
                ChappieHarnessTool(
                    name: tool.name, description: tool.description, inputSchema: tool.inputSchema,
                    textFormat: tool.textFormat),
                in: tool.namespace)
        }
    }

    /// Returns the tools in the form in which a request declares them, always in the same order.
    ///
    /// - Parameter inNamespace: whether tools without a namespace are put into the one called `functions`. If not, and
    ///   `onPlan` is `true`, no tool is in a namespace, because the backend has refused them.
    func declared(onPlan: Bool, inNamespace: Bool) -> [ChappieJSON] {
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
            }
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
    fileprivate func declared(name flatName: String? = nil) -> ChappieJSON {
        let type = textFormat == nil ? "function" : "custom"
        var tool = ChappieJSONObject([
            ("type", .string(type)), ("name", .string(flatName ?? name)), ("description", .string(description)),
        ])
        if let textFormat {
            tool["format"] = textFormat.json
        } else {
            tool["strict"] = false
            tool["parameters"] = ChappieJSONSchema(inputSchema).toolParameters
        }
        return .object(tool)
    }
}
