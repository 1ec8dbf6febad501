import ChappieClient
import ChappieCore
import ChappieSimulator
import Testing

/// A reference answer, cut at every 97th byte of its body, with FIN and with RST.
@Suite struct CutTests {
    @Test(arguments: ["fin", "rst"])
    func everyCutShowsAPrefixAndALostConnection(ending: String) async throws {
        let question = "Grüße 🌍"
        var reference = ""
        try await Loopback.run { reference = await $0.ask(question).shown }
        var offset = 1
        var tried = 0
        var isWhole = false
        while !isWhole {
            let scenario = try SimulatorScenario(
                parsing: """
                    {"rules":[{"match":{"method":"POST","path":"/backend-api/codex/responses"},\
                    "effect":{"cut":{"afterBytes":\(offset),"with":"\(ending)"}}}]}
                    """)
            try await Loopback.run(scenario) { loopback in
                let (shown, end) = await loopback.ask(question)
                switch end {
                case .success(let response):
                    #expect(response.outputText == reference)
                    isWhole = true
                case .failure(ChappieClientError.transportFailed(let error)):
                    #expect(error.code == .connectionLost, "at \(offset): \(error)")
                    #expect(reference.hasPrefix(shown), "at \(offset)")
                case .failure(let error): Issue.record("at \(offset): \(error)")
                }
            }
            tried += 1
            offset += 97
            try #require(tried < 1000, "the answer never became whole")
        }
        print("cut with \(ending) at \(tried) offsets")
        #expect(tried > 10)
    }
}
