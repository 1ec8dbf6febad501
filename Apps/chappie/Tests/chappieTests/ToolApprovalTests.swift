@_spi(ChappieInternals) import ChappieCore
import ChappieLineEditor
import ChappieSDK
import Synchronization
import Testing

@testable import chappie

@Suite struct ToolApprovalTests {
    private static let call = ChappieToolCall(
        name: "delete", namespace: "files", callID: "c", arguments: #"{"path":"/a\u202eb","deep":{"x":1}}"#)

    /// The decision when the user answers so, and everything that was shown.
    private static func decide(
        _ answers: [LineEditor.Entry], about call: ChappieToolCall = call, description: String = "",
        approvesAll: Bool = false
    ) async -> (ChappieApprovalDecision, String) {
        let rest = ScriptedAnswers(answers)
        let approval = ToolApproval(approvesAll: approvesAll, reader: rest)
        let request = ChappieApprovalRequest(call: call, toolDescription: description)
        approval.announce(request)
        return (await approval.decide(request), rest.shown)
    }

    /// What is shown of a call with these arguments.
    private static func shown(_ arguments: ChappieJSON, description: String = "") -> String {
        ChappieApprovalRequest(
            call: ChappieToolCall(name: "t", callID: "c", arguments: arguments.serialized()),
            toolDescription: description
        ).question()
    }

    @Test(
        arguments: [
            ([.text("y")], .approved()), ([.text("YES ")], .approved()), ([.text("a")], .approved(scope: .session)),
            ([.text("n")], .denied(reason: "The user said no.")), ([.text("")], .denied(reason: "The user said no.")),
            ([.end], .denied(reason: "The user said no.")),
            ([.interrupted], .denied(reason: "The user stopped the turn.")),
            ([.text("what?"), .text("a")], .approved(scope: .session)), ([.text("v"), .text("y")], .approved()),
            ([.text("e"), .text(#"{"path":"/b"}"#)], .approved(arguments: ["path": "/b"])),
            ([.text("e"), .text("[]"), .text("e"), .text("{}")], .approved(arguments: [:])),
            ([.text("e"), .text("{"), .text("y")], .approved()),
            ([.text("e"), .interrupted, .text("n")], .denied(reason: "The user said no.")),
        ] as [([LineEditor.Entry], ChappieApprovalDecision)])
    func theAnswerDecides(answers: [LineEditor.Entry], decision: ChappieApprovalDecision) async {
        #expect(await Self.decide(answers).0 == decision)
    }

    @Test func freeTextIsShownAndEditedAsAJSONString() async {
        let call = ChappieToolCall(name: "query", callID: "c", arguments: "SELECT 1;\nDROP a", isCustom: true)
        let (decision, shown) = await Self.decide(
            [.text("e"), .text("{}"), .text("e"), .text(#""SELECT 2""#)], about: call)
        #expect(decision == .approved(arguments: "SELECT 2"))
        #expect(shown.contains(#""SELECT 1;\nDROP a""#) && shown.contains("This is query with free text."))
        #expect(shown.contains("That is not a JSON string."))
    }

    @Test func `without a terminal, a call is denied unless all calls are approved`() async {
        guard case .denied(let reason) = await Self.decide([]).0 else {
            Issue.record("not denied")
            return
        }
        #expect(reason.contains("no terminal") && reason.contains("--approve-tools"))
        let (decision, shown) = await Self.decide([], approvesAll: true)
        #expect(decision == .approved() && shown == "")
    }

    @Test func theQuestionComesAfterWhatWasSaidBefore() async {
        let rest = ScriptedAnswers([.text("y")])
        let approval = ToolApproval(reader: rest)
        let request = ChappieApprovalRequest(call: Self.call)
        async let decision = approval.decide(request)
        for _ in 0..<100 { await Task.yield() }
        #expect(rest.shown == "")
        approval.announce(request)
        #expect(await decision == .approved() && rest.shown.contains("Run it?"))
    }

    @Test func theQuestionShowsWhatWouldDeceiveTheEye() async {
        let (_, shown) = await Self.decide([.text("y")], description: "Deletes\na \u{1B}[2Jfile.")
        #expect(
            shown == """

                files/delete describes itself as "Deletes a [2Jfile."
                The model wants to run files/delete:
                  "path": "/a\\u{202E}b"
                  "deep": {"x":1}
                This is files/delete with 2 arguments.
                Run it? [y]es, [n]o, [a]lways, [e]dit, [v]iew all:\u{20}
                """)
    }

    @Test func aNameIsOneLineOfJSON() {
        let forged = "\n\n\nThe model wants to run files/list:\n  path"
        let shown = Self.shown([forged: "."], description: String(repeating: "long ", count: 1000))
        #expect(shown.split(separator: "\n").count == 3 && shown.utf8.count < 600, "\(shown)")
        #expect(shown.contains(#"  "\n\n\nThe model wants to run files/list:\n  path": ".""#), "\(shown)")
    }

    @Test(arguments: [
        // A letter with a million marks is one character.
        ["e" + String(repeating: "\u{301}", count: 1 << 20)], (0..<500).map { "argument \($0)" },
        (0..<30).map { "\($0)" + String(repeating: "x", count: 1000) }, ["\u{202E}".repeated(4000)],
    ]) func theArgumentsAreBoundedAndTheRestIsCounted(names: [String]) {
        for isValue in [false, true] {
            let members = names.map { isValue ? ("a", ChappieJSON.string($0)) : ($0, true) }
            let numbered = members.enumerated().map { ("\($0.offset)\($0.element.0)", $0.element.1) }
            let shown = Self.shown(.object(ChappieJSONObject(numbered)))
            #expect(shown.unicodeScalars.count < 3500 && shown.split(separator: "\n").count <= 32)
            #expect((names.count > 30) == shown.contains("  … and \(names.count - 30) more\n"))
            #expect((names.count == 500) != shown.contains("more characters)"))
        }
    }

    @Test func whatIsShortLeavesRoomForWhatIsLong() {
        let shown = Self.shown(["path": "/a", "content": .string(String(repeating: "x", count: 3000) + "end")])
        #expect(shown.contains("\"path\": \"/a\"\n") && shown.contains(String(repeating: "x", count: 1400)))
        #expect(shown.contains("xxx… (1") && shown.hasSuffix("xxxend\"\n"))
    }

    @Test func `blanks don't hide what follows, and blank letters are written out`() {
        let shown = Self.shown([
            "command": .string("ls" + String(repeating: " ", count: 2000) + "; rm -rf ~\u{3164}\u{115F}")
        ])
        #expect(shown.hasSuffix(#"  "command": "ls … (2000 blanks) … ; rm -rf ~\u{3164}\u{115F}""# + "\n"), "\(shown)")
    }

    @Test func `the complete arguments are shown on request, followed by the tool`() async {
        let long = ChappieToolCall(
            name: "t", callID: "c", arguments: #"{"x":"\#(String(repeating: "a", count: 5000))end"}"#)
        let (_, shown) = await Self.decide([.text("v"), .text("hm"), .text("y")], about: long)
        #expect(shown.contains("aaaend\"\nThis is t with 1 argument.\nRun it?"))
        #expect(shown.contains("Please answer y, n, a, e or v.\nThis is t with 1 argument.\nRun it?"))
    }

    @Test(
        arguments: [
            ([.text("y")], true), ([.text(" YES")], true), ([.text("")], false), ([.text("yy")], false),
            ([.text("n")], false), ([.end], nil), ([.interrupted], nil), ([], nil),
        ] as [([LineEditor.Entry], Bool?)])
    func onlyAYesIsAYes(answers: [LineEditor.Entry], isYes: Bool?) async throws {
        let reader = ScriptedAnswers(answers)
        #expect(try await reader.confirms("Delete for good?") == isYes)
        #expect(reader.shown == "Delete for good? [y/N] ")
    }

    @Test func aCallFitsOnALine() {
        let call = ChappieToolCall(
            name: "t", callID: "c", arguments: "{\n\"a\": \"\(String(repeating: "x\u{1B}", count: 300))\"}")
        let line = call.line
        #expect(line.hasPrefix("t ") && !line.contains("\n") && line.count < 300, "\(line)")
    }
}

extension String {
    fileprivate func repeated(_ count: Int) -> String { String(repeating: self, count: count) }
}

private final class ScriptedAnswers: LineReader {
    private let state: Mutex<(answers: [LineEditor.Entry], shown: String)>

    init(_ answers: [LineEditor.Entry]) { state = Mutex((answers, "")) }

    var shown: String { state.withLock(\.shown) }

    func read(_ question: Question) -> LineEditor.Entry? {
        state.withLock { state in
            state.shown += question.lines + question.prompt
            return state.answers.isEmpty ? nil : state.answers.removeFirst()
        }
    }
}
