/// What a message is answered with, before it becomes frames.
struct MessageAnswer: Sendable {
    var events: [StreamedEvent]
    /// How the answer is mishandled on its way out.
    var faults = WireFaults()
    var frames = FrameFaults()

    /// Whether nothing of it is sent.
    var isSilent: Bool {
        faults.cut?.place == .beforeHead || faults.stall == .beforeHead || frames.close?.afterEvents == 0
    }

    init(_ outcome: Backend.MessageOutcome, effect: ScenarioEffect?) {
        faults = effect?.faults ?? faults
        frames = effect?.frames ?? frames
        switch outcome {
        case .events(let events):
            // What only ends a stream of server-sent events means nothing here.
            self.events = events.filter { $0.name != "done" }
        case .refusal(let response) where response.status < 300:
            // Something that is no stream of events: sent as it is, and then the end, as an HTTP answer would have one.
            if case .bytes(let bytes) = response.body {
                events = [StreamedEvent(name: "", data: bytes)]
            } else {
                events = []
            }
            frames.close = frames.close ?? FrameFaults.Closure(code: 1000)
        case .refusal(let response):
            let member = frames.statusMember == .none ? nil : frames.statusMember.rawValue
            events = [StreamedEvent(name: "error", data: ErrorFrame.make(response, statusMember: member))]
        }
    }
}

extension Backend.MessageOutcome {
    /// As HTTP would have answered.
    var status: Int {
        switch self {
        case .events: 200
        case .refusal(let response): response.status
        }
    }
}
