// A tool that the model may only use when the user says so: once, for the whole session, changed, or not at all.
import ChappieSDK
import Playground

struct Order: Decodable, ChappieJSONSchemaProviding {
    var article: String
    var count: Int
}

// The schema of the arguments is Order's own; what doesn't fit goes back to the model and never reaches the closure.
let order = ChappieHostTool(
    name: "order", description: "Orders an article.", input: Order.self, policy: .ask
) { order in
    print("ordered: \(order.count) × \(order.article)")
    return ChappieToolResult(output: "Ordered \(order.count) × \(order.article).")
}

let configuration = ChappieConfiguration(keychainService: "com.example.shop", endpoints: endpoints)
let client = Chappie.client(
    configuration: configuration, tools: [order], store: store,
    toolApprovalHandler: { request in
        // `question()` cleans and bounds the model's words, so that no line of them passes for one of the program's.
        print("\(request.question())yes, always, one or no:")
        switch readLine() {
        case "yes": return .approved()
        case "always": return .approved(scope: .session)
        case "one": return .approved(arguments: ["article": request.call.argumentsJSON?["article"] ?? "", "count": 1])
        default: return .denied(reason: "The user does not want it.")
        }
    })

let session = await Chappie.loadedAuthSession(configuration: configuration, store: store)
if !session.state.isSignedIn {
    _ = try await session.signIn { code in print("Enter \(code.userCode) at \(code.verificationURL)") }
}
while let line = readLine() {
    for try await event in client.stream(line) {
        switch event {
        case .textDelta(let text): print(text, terminator: "")
        case .toolCallCompleted(let result): print("[\(result.call.name): \(result.outcome.rawValue)]")
        case .completed: print()
        default: break
        }
    }
}
