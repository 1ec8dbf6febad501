import ArgumentParser
@_spi(ChappieInternals) import ChappieCore
import ChappieMCP
import ChappieSDK

/// The command `chappie apps`, which lists the apps that the user has connected in ChatGPT.
struct Apps: ProgramCommand {
    var settingsUse: SettingsUse { .network }
    var accessTokenUse: AccessTokenUse { .signsIn }
    static let configuration = CommandConfiguration(
        commandName: "apps", abstract: "List the apps that you have connected in ChatGPT.",
        discussion: """
            Experimental. Connect apps in ChatGPT, such as Gmail; chappie ask --apps gmail then lets the model use its \
            tools. Not every sign-in includes connected apps, and --route plan has none.

            Each tool asks before each call. `chappie config set app_tools gmail.search_emails` lets a tool that only \
            reads run without a question.

            With --json: {"apps":[{"name":…, "tools":[{"name":…, "description":…, "read_only":true|false},…]},…]}.
            """)

    @OptionGroup var options: GlobalOptions

    func run(in program: Program) async throws {
        let apps = try await program.connectedApps.list()
        guard !options.json else { return program.console.json(["apps": .array(apps.map(\.json))]) }
        guard !apps.isEmpty else { return program.console.line("You have connected no apps in ChatGPT.") }
        for app in apps { app.lines.forEach(program.console.line) }
    }
}

extension ChappieConnectedApps.App {
    fileprivate var json: ChappieJSON {
        [
            "name": .string(name),
            "tools": .array(
                tools.map { tool in
                    [
                        "name": .string(tool.name), "description": .string(tool.description),
                        "read_only": .bool(tool.isReadOnly),
                    ]
                }),
        ]
    }

    /// The app's name, and below it a line for each tool.
    var lines: [String] {
        [UntrustedText.message(name, limit: 64) ?? ""]
            + tools.map { tool in
                let words = "\(tool.name)  \(tool.isReadOnly ? "reads" : "writes")  \(tool.description)"
                return "  " + (UntrustedText.message(words, limit: 200) ?? "")
            }
    }
}
