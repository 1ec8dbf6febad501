import ChappieCore
import ChappieSimulator
import HTTPTypes

extension WebSocketTransportContract {
    /// The script: how a path is answered, whoever serves it.
    static func opening(at path: String, asking question: String?) -> ScriptedWebSocketOpening {
        switch path {
        case "/echo":
            .opened(headerFields: [.contractAnswer: question ?? "nothing asked"], reply: reply)
        case "/greeting": .opened(greeting: [.deliver(["one", "two", "three"])], reply: reply)
        case "/goodbye":
            .opened(greeting: [.deliver(["last words"]), .close(WebSocketCloseReason(code: 1001, reason: "bye"))])
        case "/cut": .opened(greeting: [.deliver(["last words"]), .cut])
        case "/silence": .opened(greeting: [.silence])
        case "/no-answer": .hangs
        case "/cut-before-answer":
            .refused(ScriptedHTTPAnswer(beforeHead: [.cut]))
        case "/refused":
            .refused(.response(status: .forbidden, headerFields: [.contractAnswer: "no"], body: "not you"))
        case "/moved": .refused(.response(status: .temporaryRedirect, headerFields: [.location: "/echo"]))
        default: .refused(.response(status: .badRequest, body: "the contract has no such path"))
        }
    }

    /// Everything comes back.
    static func reply(to message: WebSocketMessage, _ number: Int) -> [ScriptedWebSocketStep] { [.deliver([message])] }
}

extension ScriptedWebSocketOpening {
    /// The same over a real socket. A gate is for the fake alone.
    func onTheWire(_ request: ReceivedRequest) -> ScriptedWebSocketServer.Answer {
        switch answer {
        case .opened(let fields, let greeting, _):
            .upgrade(
                request, headers: fields.map { ($0.name.rawName, $0.value) }, then: greeting.compactMap(\.onTheWire))
        case .refused(let answer):
            if answer.beforeHead.isEmpty {
                .init(
                    .response(
                        status: answer.status.code, headers: answer.headerFields.map { ($0.name.rawName, $0.value) },
                        body: answer.body.flatMap(\.bytes)))
            } else {
                .init(steps: [.finish])
            }
        case .failed: .init(steps: [.finish])
        case .hangs: .init(steps: [.stall])
        }
    }
}

extension ScriptedWebSocketStep {
    var onTheWire: ScriptedWebSocketServer.Step? {
        switch self {
        case .deliver(let messages): .send(messages.flatMap { WebSocketFrames.message($0) })
        case .close(let closure): .send(WebSocketFrames.close(closure.code, reason: closure.reason))
        case .cut, .fail: .finish
        case .silence: .stall
        case .wait: nil
        }
    }
}

extension ScriptedHTTPAnswer.Step {
    fileprivate var bytes: [UInt8] {
        if case .chunk(let bytes) = self { bytes } else { [] }
    }
}
