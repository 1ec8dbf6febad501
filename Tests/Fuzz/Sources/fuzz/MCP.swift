@_spi(ChappieInternals) import ChappieCore

@testable import ChappieMCP

/// Never traps; how the server's bytes are cut changes no action. Every request ends once, and nothing happens after the end.
/// At each NUL the client does something: the byte behind it says what.
func hearMCPServer(_ input: UnsafeBufferPointer<UInt8>) -> CInt {
    let chunks = Chunks(input)
    let parts = chunks.whole.split(separator: 0, omittingEmptySubsequences: false).map(Array.init)
    let whole = hear(parts) { [$0] }
    precondition(whole == hear(parts) { chunks.cut($0) }, "chunks of \(chunks.size) bytes change the actions")
    return 0
}

private func hear(_ parts: [[UInt8]], pieces: ([UInt8]) -> [[UInt8]]) -> [MCPSession.Action] {
    // Small enough for a fuzzer to reach.
    var limits = MCPSession.Limits()
    limits.line = 512
    limits.garbage = 3
    limits.unasked = 1400
    limits.pages = 3
    limits.entries = 4
    var session = MCPSession(server: "s", limits: limits)
    let enough = ChappieMCPError(.closed, server: "s", reason: "enough")
    var (lastID, actions) = session.start()
    for (index, part) in parts.enumerated() {
        if index > 0 {
            switch (part.first ?? 0) % 5 {
            case 0, 4:
                let (id, more) = session.list((part.first ?? 0) % 5 == 0 ? .tools : .resources)
                (lastID, actions) = (max(lastID, id), actions + more)
            case 1, 2:
                let (id, more) = session.call("a", ["x": 1])
                (lastID, actions) = (max(lastID, id), actions + more)
            default: actions += session.giveUp(lastID, because: enough)
            }
        }
        for piece in pieces(part) { actions += session.receivedBytes(piece) }
    }
    let isOver = session.isOver
    let last = session.end(because: enough)
    precondition(last.isEmpty == isOver, "something happens after the end")
    check(actions + last)
    return actions + last
}

/// Every request that was sent, or refused, ends exactly once, and messages are single lines.
private func check(_ actions: [MCPSession.Action]) {
    var asked: Set<Int> = []
    var finished: Set<Int> = []
    for (index, action) in actions.enumerated() {
        switch action {
        case .send(let message):
            precondition(!message.serializedBytes().contains(0x0A), "a message is more than a line")
            // The next page of a list is a request whose answer ends the list.
            if message["method"] != nil, let id = message["id"]?.int, message["params"]?["cursor"] == nil {
                asked.insert(id)
            }
        case .finish(let id, let result):
            precondition(finished.insert(id).inserted, "the request \(id) ends twice")
            switch result {
            case .success(let value):
                _ = MCPTool.read(value.array ?? [])
                _ = MCPResult.convert(value)
                for entry in value.array ?? [] {
                    _ = ChappieMCPResource(entry, isTemplate: false)
                    _ = ChappieMCPPrompt(entry)
                }
                for entry in value["contents"]?.array ?? [] { _ = ChappieMCPContent(entry) }
                for message in value["messages"]?.array ?? [] { _ = ChappieInputMessage(message) }
            case .failure(let error): check(error)
            }
        case .abandon(let error):
            check(error)
            precondition(index == actions.count - 1 || actions[(index + 1)...].allSatisfy(isRefusal), "it goes on")
        }
    }
    precondition(asked.isSubset(of: finished), "a request never ends")
}

private func check(_ error: ChappieMCPError) {
    precondition(UntrustedText.line(error.reason, limit: .max) != nil, "not fit to be shown: \(error.reason)")
}

private func isRefusal(_ action: MCPSession.Action) -> Bool {
    if case .finish(_, .failure) = action { true } else { false }
}
