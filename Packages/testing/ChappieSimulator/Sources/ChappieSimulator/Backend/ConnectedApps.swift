@_spi(ChappieInternals) import ChappieCore

/// The Model Context Protocol server of the user's connected apps, over Streamable HTTP without sessions.
extension Backend {
    func connectedApps(_ request: BackendRequest, of account: SimulatorAccount) -> BackendResponse {
        if configuration.isStrict {
            guard request.header("x-openai-product-sku") == "codex" else {
                return .invalid("The product is missing.", parameter: "x-openai-product-sku")
            }
            let accepted = request.list("accept").map { $0.prefix { $0 != ";" } }
            guard accepted.contains("application/json"), accepted.contains("text/event-stream") else {
                return .json(["detail": "Not Acceptable"], status: 406)
            }
        }
        guard let message = request.json, let method = message["method"]?.string else {
            return .invalid("The body is no message of the protocol.")
        }
        guard let id = message["id"] else { return BackendResponse(status: 202) }
        let parameters = message["params"] ?? .null
        let answer: ChappieJSON =
            switch method {
            case "initialize":
                [
                    "result": [
                        "protocolVersion": "2025-06-18", "capabilities": ["tools": ["listChanged": false]],
                        "serverInfo": ["name": "connected-apps", "version": "1"],
                    ]
                ]
            case "ping": ["result": [:]]
            case "tools/list": ["result": ["tools": .array(ConnectedApps.tools)]]
            case "tools/call": ConnectedApps.answer(to: parameters, for: account.email)
            default: ["error": ["code": -32601, "message": "Method not found"]]
            }
        let members = answer.object?.members.map { ($0.name, $0.value) } ?? []
        return .json(.object(ChappieJSONObject([("jsonrpc", "2.0"), ("id", id)] + members)))
    }
}

/// Two apps, each with a tool that reads and one that writes.
private enum ConnectedApps {
    static let tools: [ChappieJSON] = [
        tool("gmail.search_emails", "Searches the user's mail in Gmail.", "query", isReadOnly: true),
        tool("gmail.send_email", "Sends a mail from the user's Gmail account.", "text", isReadOnly: false),
        tool("calendar.list_events", "Lists the events of the user's calendar.", "day", isReadOnly: true),
        tool("calendar.create_event", "Creates an event in the user's calendar.", "title", isReadOnly: false),
    ]

    private static func tool(
        _ name: String, _ description: String, _ parameter: String, isReadOnly: Bool
    ) -> ChappieJSON {
        [
            "name": .string(name), "description": .string(description),
            "inputSchema": [
                "type": "object", "properties": .object([parameter: ["type": "string"]]),
                "required": [.string(parameter)],
            ],
            "annotations": ["readOnlyHint": .bool(isReadOnly), "destructiveHint": false, "openWorldHint": true],
            "_meta": ["connector_id": .string("connector_\(name.prefix { $0 != "." })")],
        ]
    }

    /// Returns the answer to a call. The text `reconnect` asks the user to connect the app again.
    static func answer(to parameters: ChappieJSON, for email: String) -> ChappieJSON {
        guard let name = parameters["name"]?.string, tools.contains(where: { $0["name"]?.string == name }) else {
            return ["error": ["code": -32602, "message": "There is no such tool."]]
        }
        let given = parameters["arguments"]?.object?.members.first?.value.string ?? ""
        if given == "reconnect" {
            let page: ChappieJSON = [
                "mode": "url", "elicitationId": "1", "url": "https://chatgpt.com/apps/connect",
                "message": "Connect the app again.",
            ]
            return [
                "error": ["code": -32042, "message": "The app must be connected.", "data": ["elicitations": [page]]]
            ]
        }
        let text = "\(name) of \(email): \(given)"
        return ["result": ["content": [["type": "text", "text": .string(text)]], "isError": false]]
    }
}
