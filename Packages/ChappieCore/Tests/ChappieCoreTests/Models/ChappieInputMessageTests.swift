@_spi(ChappieInternals) import ChappieCore
import FoundationEssentials
import Testing

@Suite struct ChappieInputMessageTests {
    @Test(
        "the roles and their parts",
        arguments: [
            (ChappieInputMessage.user("hi"), "user", "input_text"), (.system("hi"), "system", "input_text"),
            (.developer("hi"), "developer", "input_text"), (.assistant("hi"), "assistant", "output_text"),
            (ChappieInputMessage(role: .init(rawValue: "critic"), parts: [.text("hi")]), "critic", "input_text"),
        ])
    func writesInputItems(_ message: ChappieInputMessage, _ role: String, _ kind: String) {
        #expect(
            message.inputItem.serialized()
                == #"{"type":"message","role":"\#(role)","content":[{"type":"\#(kind)","text":"hi"}]}"#)
    }

    @Test func writesImagesInTheirPlace() {
        let message = ChappieInputMessage(
            role: .user, parts: [.text("a"), .imageURL("data:image/png;base64,AA=="), .text("b")])
        #expect(
            message.inputItem.serialized()
                == #"{"type":"message","role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_image","image_url":"data:image/png;base64,AA==","detail":"high"},{"type":"input_text","text":"b"}]}"#
        )
    }

    @Test func noEffortIsAnEffortAndNotAMissingOne() throws {
        let options = ChappieMessageOptions(reasoningEffort: .none)
        #expect(options.reasoningEffort.rawValue == "none")
        #expect(try JSONDecoder().decode(ChappieMessageOptions.self, from: JSONEncoder().encode(options)) == options)
        #expect(try JSONDecoder().decode(ChappieMessageOptions.self, from: Data("{}".utf8)) == ChappieMessageOptions())
    }

    @Test func fastModeIsLowEffort() {
        #expect(ChappieInputMessage.user("x", fastMode: true).options.reasoningEffort == .low)
        #expect(ChappieInputMessage.user("x", fastMode: false).options.reasoningEffort == .automatic)
        #expect(ChappieInputMessage.user("x").options == ChappieMessageOptions())
        #expect(ChappieMessageOptions(fastMode: true, reasoningEffort: .high).reasoningEffort == .high)
    }

    @Test func survivesARoundTrip() throws {
        var message = ChappieInputMessage(
            role: .init(rawValue: "critic"), parts: [.text("a"), .imageURL("https://x.example/i.png")])
        message.options = ChappieMessageOptions(reasoningEffort: .init(rawValue: "cosmic"), verbosity: .high)
        #expect(try JSONDecoder().decode(ChappieInputMessage.self, from: JSONEncoder().encode(message)) == message)
    }
}
