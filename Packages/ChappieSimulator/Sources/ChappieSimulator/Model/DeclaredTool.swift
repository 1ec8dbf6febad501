import ChappieCore

/// A tool the request offers to the model.
struct DeclaredTool: Sendable, Hashable {
    enum Kind: Sendable, Hashable { case function, custom }

    let name: String
    let kind: Kind
    /// The namespace it was declared in; `nil` at the top level and in `functions`, which clients leave out.
    let namespace: String?
    /// The JSON schema of a function's arguments.
    let parameters: ChappieJSON

    /// Every function and custom tool in `tools`, those inside namespaces too.
    static func list(_ tools: [ChappieJSON], namespace: String? = nil) -> [DeclaredTool] {
        tools.flatMap { tool -> [DeclaredTool] in
            let name = tool["name"]?.string ?? ""
            switch tool["type"]?.string {
            case "function" where !name.isEmpty:
                return [
                    DeclaredTool(
                        name: name, kind: .function, namespace: namespace, parameters: tool["parameters"] ?? .null)
                ]
            case "custom" where !name.isEmpty:
                return [DeclaredTool(name: name, kind: .custom, namespace: namespace, parameters: .null)]
            // One level of nesting is all there is on this wire.
            case "namespace" where namespace == nil:
                return list(tool["tools"]?.array ?? [], namespace: name == "functions" ? nil : name)
            default: return []
            }
        }
    }
}
