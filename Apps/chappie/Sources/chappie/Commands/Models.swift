import ArgumentParser
import ChappieSDK

/// `chappie models`: what the account may use.
struct Models: ProgramCommand {
    static let configuration = CommandConfiguration(
        abstract: "List the models your account may use, best first.",
        discussion: "With --json: {\"models\":[{\"slug\":…,…},…]}.")

    @OptionGroup var options: GlobalOptions

    @Flag(help: "Also list models that the service hides.")
    var all = false

    func run(in program: Program) async throws {
        let models = try await program.client().models(filter: ChappieModelFilter(includesHidden: all))
        guard !options.json else { return Output.json(["models": .array(models.map(\.json))]) }
        let width = models.map(\.slug.count).max() ?? 0
        for model in models {
            let padding = String(repeating: " ", count: width - model.slug.count)
            let window = model.contextWindow.map { "\($0 / 1000)k" } ?? "-"
            let mark = model.slug == ChappieClient.defaultModel ? "  (default)" : ""
            Output.line("\(model.slug)\(padding)  \(window)  \(model.displayName)\(mark)")
        }
    }
}
