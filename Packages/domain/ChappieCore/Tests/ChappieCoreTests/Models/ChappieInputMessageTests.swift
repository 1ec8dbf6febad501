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
        var options = ChappieMessageOptions(fastMode: true)
        #expect(options.fastMode)
        options.fastMode = false
        #expect(options == ChappieMessageOptions())
        options.reasoningEffort = .high
        options.fastMode = false
        #expect(options.reasoningEffort == .high, "what was not fast stays as it was")
        options.fastMode = true
        #expect(options.reasoningEffort == .low)
    }

    @Test func textsBecomeMessages() {
        #expect(["a", "b"].map(ChappieInputMessage.user) == [.user("a", fastMode: false), .user("b", images: [])])
    }

    @Test func aUsersImagesAndFilesComeBeforeTheText() {
        let message = ChappieInputMessage.user(
            "What is this?", images: [ChappieImage(source: .fileID("file_1"), detail: .low)],
            files: [ChappieFile(name: "a.pdf", source: .url("https://x.example/a.pdf"))])
        #expect(
            message.inputItem.serialized()
                == #"{"type":"message","role":"user","content":[{"type":"input_image","file_id":"file_1","detail":"low"},{"type":"input_file","filename":"a.pdf","file_url":"https://x.example/a.pdf"},{"type":"input_text","text":"What is this?"}]}"#
        )
    }

    @Test func survivesARoundTrip() throws {
        var message = ChappieInputMessage(
            role: .init(rawValue: "critic"), parts: [.text("a"), .imageURL("https://x.example/i.png")])
        message.options = ChappieMessageOptions(reasoningEffort: .init(rawValue: "cosmic"), verbosity: .high)
        #expect(try JSONDecoder().decode(ChappieInputMessage.self, from: JSONEncoder().encode(message)) == message)
    }

    @Test(
        "parts in the API's own words",
        arguments: [
            (#"{"type":"input_text","text":"a"}"#, .text("a")), (#"{"text":"a","type":"output_text"}"#, .text("a")),
            (
                #"{"type":"input_image","image_url":"data:image/png;base64,AA==","detail":"cosmic"}"#,
                .image(ChappieImage(source: .url("data:image/png;base64,AA=="), detail: .init(rawValue: "cosmic")))
            ),
            (
                #"{"type":"input_file","filename":"a.pdf","file_data":"data:application/pdf;base64,AA=="}"#,
                .file(ChappieFile(name: "a.pdf", source: .data("data:application/pdf;base64,AA==")))
            ), (#"{"type":"input_file","file_id":"f"}"#, .file(ChappieFile(source: .fileID("f")))),
        ] as [(String, ChappieInputMessage.Part)])
    func readsKnownParts(_ text: String, _ part: ChappieInputMessage.Part) throws {
        let read = try JSONDecoder().decode(ChappieInputMessage.Part.self, from: Data(text.utf8))
        #expect(read == part)
        #expect(try JSONDecoder().decode(ChappieInputMessage.Part.self, from: JSONEncoder().encode(read)) == part)
    }

    @Test(
        "parts that this version does not know, or not whole",
        arguments: [
            #"{"type":"input_audio","audio_url":"data:audio/wav;base64,AA==","speed":1.5}"#,
            #"{"type":"output_text","text":"a","annotations":[{"type":"url_citation"}],"logprobs":null}"#,
            #"{"type":"input_image","image_url":"https://x.example/i.png"}"#,
            #"{"type":"input_image","image_url":"a","file_id":"b","detail":"low"}"#,
            #"{"type":"input_file","filename":7,"file_id":"f"}"#, #"{"type":"input_file"}"#, #"{"type":"input_text"}"#,
            #"{"text":"no type"}"#, "{}", "[1]", "7", #""text""#, "null",
        ])
    func unknownPartsComeBackUnchanged(_ text: String) throws {
        let part = try JSONDecoder().decode([ChappieInputMessage.Part].self, from: Data("[\(text)]".utf8))[0]
        let value = try JSONDecoder().decode([ChappieJSON].self, from: Data("[\(text)]".utf8))[0]
        #expect(part == .other(value))
        let message = ChappieInputMessage(role: .user, parts: [part])
        let again = try JSONDecoder().decode(ChappieInputMessage.self, from: JSONEncoder().encode(message))
        #expect(again == message && again.inputItem["content"] == [value])
    }
}
