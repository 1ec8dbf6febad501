import ArgumentParser
import ChappieSDK

/// How to answer; shared by the commands that ask.
struct AnswerOptions: ParsableArguments {
    @Option(help: "The model's slug (see chappie models).")
    var model: String?

    @Option(help: "How hard to think: minimal, low, medium, high, … as the model offers.")
    var effort: String?

    @Flag(help: "The same as --effort low.")
    var fast = false

    @Option(
        help: ArgumentHelp(
            "How the answer travels: auto (WebSocket, else server-sent events), websocket or sse.",
            valueName: "transport"))
    var transport = TransportOption.auto

    var messageOptions: ChappieMessageOptions {
        ChappieMessageOptions(fastMode: fast, reasoningEffort: effort.map(ChappieReasoningEffort.init(rawValue:)))
    }
}
