import ArgumentParser
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
import ChappieSDK
import FoundationEssentials
import Testing

@testable import chappie

@Suite struct SettingsTests {
    private let home = TemporaryFolder()

    private func settings(_ variables: [String: String] = [:], _ arguments: [String] = []) throws -> Settings {
        try Settings(options: GlobalOptions.parse(arguments), environment: home.environment(variables))
    }

    @Test func withoutAnythingSetEverythingIsTheDefault() throws {
        let settings = try settings()
        #expect(settings.store == .keyring && !settings.isStoreChosen)
        #expect(settings.configuration.keychainAccount == "default")
        #expect(settings.configuration.endpoints == .chatGPT)
        #expect(settings.configuration.network == .default)
        #expect(settings.issuer == nil && settings.givenURLs.isEmpty)
    }

    @Test func argumentsWinOverTheEnvironmentAndThatOverWhatIsKept() async throws {
        let environment = home.environment()
        try await UserSettings.change(environment) {
            $0.add("kept", of: nil)
            try $0.use("kept", of: nil)
            $0.store = "file"
        }
        #expect(try settings().configuration.keychainAccount == "kept")
        #expect(try settings().store == .file && settings().isStoreChosen)
        let variables = ["CHAPPIE_ACCOUNT": "variable", "CHAPPIE_CREDENTIAL_STORE": "memory"]
        #expect(try settings(variables).configuration.keychainAccount == "variable")
        #expect(try settings(variables).store == .memory)
        #expect(try settings(variables, ["--account", "argument"]).configuration.keychainAccount == "argument")
    }

    @Test func aSimulationIgnoresTheRest() throws {
        let settings = try settings(
            ["CHAPPIE_ISSUER": "no address", "CHAPPIE_CREDENTIAL_STORE": "nowhere"], ["--simulate"])
        #expect(settings.store == .memory && settings.isStoreChosen && settings.givenURLs.isEmpty)
    }

    // MARK: Routes

    @Test func eachRouteHasASlotOfItsOwnAndItsOwnAddresses() throws {
        let device = try settings([:], ["--route", "device"])
        let plan = try settings([:], ["--route", "plan"])
        #expect(device.configuration.endpoints == .chatGPT && device.issuer == nil)
        #expect(plan.configuration.endpoints == .continueWithChatGPT(appName: "Chappie"))
        #expect(plan.configuration.credentialSlot != device.configuration.credentialSlot)
        #expect(plan.issuer != nil && plan.issuer == plan.issuers[.plan] && plan.issuers[.device] == nil)
        #expect(plan.issuers == device.issuers)
        #expect(plan.issuerWords == "https://auth.openai.com for https://api.openai.com")
    }

    @Test func theRouteOfTheLastLoginIsUsedUnlessAnotherIsNamed() async throws {
        let environment = home.environment()
        #expect(try settings().route == .device)
        try await UserSettings.change(environment) { $0.use(Route.plan) }
        #expect(try settings().route == .plan)
        #expect(try settings([:], ["--route", "device"]).route == .device)
        #expect(try settings([:], ["--simulate"]).route == .device)
        try await UserSettings.change(environment) { $0.use(Route.device) }
        #expect(try settings().route == .device)
    }

    @Test func loginTakesTheDeviceCodeUnlessTheRouteIsNamed() throws {
        for (line, route) in [(["login"], Route.device), (["login", "--route", "plan"], .plan)] {
            let command = try #require(try ChappieCommand.parseAsRoot(line) as? Login)
            #expect(command.options.route == route)
        }
        #expect(Route.device.login == "`chappie login`" && Route.plan.login == "`chappie login --route plan`")
    }

    @Test func accountsOfTheRoutesAreKeptApart() async throws {
        let environment = home.environment()
        let (device, plan) = (try settings(), try settings([:], ["--route", "plan"]))
        try await UserSettings.change(environment) {
            $0.add("me", of: device.issuer)
            $0.add("me", of: plan.issuer)
            $0.add("you", of: plan.issuer)
            try $0.use("you", of: plan.issuer)
        }
        let kept = try UserSettings(environment: environment)
        #expect(kept.accounts(of: nil).names == ["me"] && kept.accounts(of: nil).current == nil)
        #expect(kept.accounts(of: plan.issuer).names == ["me", "you"])
        #expect(try settings([:], ["--route", "plan"]).configuration.keychainAccount == "you")
        #expect(try settings().configuration.keychainAccount == "default")
    }

    @Test func otherAddressesKeepTheFormOfTheirRoute() throws {
        let variables = ["CHAPPIE_ISSUER": "http://127.0.0.1:1", "CHAPPIE_BACKEND": "http://127.0.0.1:1/v1"]
        let profile = try settings(variables, ["--route", "plan"]).configuration.endpoints.profile
        #expect(profile.responsesURL.absoluteString == "http://127.0.0.1:1/v1/responses")
        #expect(profile.openID != nil && profile.usageURL == nil && profile.errorTable == .chatGPTPlan)
    }

    @Test func aSimulationHasTheDeviceCodeAlone() throws {
        let error = try #require(throws: CommandLineError.self) {
            try settings([:], ["--simulate", "--route", "plan"])
        }
        #expect(error.status == .usage && error.suggestion?.contains("--simulate") == true)
    }

    @Test func theRoomForThreadsIsASetting() throws {
        #expect(try settings([:]).threadLimit == 512 << 20)
        #expect(try settings(["CHAPPIE_THREADS_LIMIT": "3"]).threadLimit == 3 << 20)
    }

    @Test func addressesAreTakenOverAndCheckedBeforeUse() throws {
        let settings = try settings(["CHAPPIE_ISSUER": "http://127.0.0.1:8080", "CHAPPIE_BACKEND": ""])
        #expect(settings.configuration.endpoints.profile.issuer.absoluteString == "http://127.0.0.1:8080")
        #expect(settings.givenURLs.count == 2)
    }

    @Test func withoutATimeoutTheDeadlinesAreTheDefaults() throws {
        #expect(try settings([:]).configuration.network.deadlines == .default)
    }

    @Test(arguments: [
        ("0.5", Duration.milliseconds(500), Duration.milliseconds(500)), ("86400", .seconds(86_400), .seconds(15)),
    ])
    func aTimeoutBoundsEveryWait(_ text: String, _ idle: Duration, _ connect: Duration) throws {
        let deadlines = try settings([:], ["--timeout", text]).configuration.network.deadlines
        #expect(deadlines.idle == idle && deadlines.responseHead == idle)
        #expect(deadlines.connect == min(connect, ChappieDeadlines.default.connect))
    }

    @Test(
        arguments: [
            (["CHAPPIE_CREDENTIAL_STORE": "cloud"], [], "keyring, file or memory"),
            (["CHAPPIE_MINIMUM_TLS": "1.1"], [], "1.2 or 1.3"),
            (["CHAPPIE_CA_FILE": "/nonexistent"], [], "PEM"),
            (["CHAPPIE_THREADS_LIMIT": "0"], [], "MiB"), (["CHAPPIE_THREADS_LIMIT": "512M"], [], "MiB"),
            (["CHAPPIE_ISSUER": "ftp://host"], [], "https://host"),
            (["CHAPPIE_ISSUER": "https://user@host"], [], "https://host"),
            (["CHAPPIE_BACKEND": "https://host?query"], [], "/backend-api"),
            (["CHAPPIE_BACKEND": "host"], [], "/backend-api"),
            ([:], ["--timeout", "0"], nil), ([:], ["--timeout", "86401"], nil), ([:], ["--timeout", "nan"], nil),
            ([:], ["--account", ""], nil),
        ] as [([String: String], [String], String?)])
    func whatCannotBeUsedIsNamed(_ variables: [String: String], _ arguments: [String], _ advice: String?) throws {
        let error = try #require(throws: CommandLineError.self) { try settings(variables, arguments) }
        #expect(error.status == .usage)
        #expect(error.message.contains(variables.keys.first ?? (arguments[0] == "--timeout" ? "--timeout" : "account")))
        #expect(advice.map { error.suggestion?.contains($0) == true } ?? true)
    }
}

@Suite struct UserSettingsTests {
    private let home = TemporaryFolder()
    private var file: String { home.path + "/.config/chappie/settings.json" }
    private let elsewhere = "http://127.0.0.1:1 http://127.0.0.1:1"

    private func kept() throws -> UserSettings { try UserSettings(environment: home.environment()) }

    @Test func accountsBelongToTheirIssuer() async throws {
        try await UserSettings.change(home.environment()) {
            $0.add("one", of: nil)
            $0.add("two", of: nil)
            $0.add("two", of: nil)
            $0.add("other", of: elsewhere)
            try $0.use("two", of: nil)
        }
        #expect(try kept().accounts(of: nil) == .init(names: ["one", "two"], current: "two"))
        #expect(try kept().accounts(of: elsewhere) == .init(names: ["other"]))
        await #expect(throws: CommandLineError.self) {
            try await UserSettings.change(home.environment()) { try $0.use("one", of: elsewhere) }
        }
        try await UserSettings.change(home.environment()) {
            $0.remove("two", of: nil)
            $0.remove("one", of: elsewhere)
        }
        #expect(try kept().accounts(of: nil) == .init(names: ["one"]))
        #expect(try kept().accounts(of: elsewhere).names == ["other"])
    }

    @Test func theDefaultIssuersMembersAreWhereTheyHaveAlwaysBeen() async throws {
        try await UserSettings.change(home.environment()) {
            $0.store = "file"
            $0.add("me", of: nil)
        }
        let text = String(decoding: try SmallFile.read(file), as: UTF8.self)
        #expect(try ChappieJSON(parsing: Array(text.utf8)) == ["accounts": ["me"], "store": "file"])
        #expect(PrivateFile.replace(file, with: Array(#"{"account":"b","accounts":["a","b"]}"#.utf8)))
        #expect(try kept().accounts(of: nil) == .init(names: ["a", "b"], current: "b"))
    }

    @Test(arguments: ["", "{", "[]", "\"text\""])
    func anotherFileIsNamedAndLeftAlone(_ text: String) async throws {
        #expect(PrivateFile.replace(file, with: Array(text.utf8)))
        await #expect(throws: CommandLineError.self) {
            try await UserSettings.change(home.environment()) { $0.store = "file" }
        }
        #expect(try SmallFile.read(file) == Array(text.utf8))
    }

    @Test func changesAtTheSameTimeAreAllKept() async throws {
        let environment = home.environment()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<8 {
                // On a busy machine eight changes may take longer than a user would wait.
                group.addTask {
                    try await UserSettings.change(environment, within: .seconds(300)) { $0.add("\(number)", of: nil) }
                }
            }
            try await group.waitForAll()
        }
        #expect(try Set(kept().accounts(of: nil).names) == Set((0..<8).map(String.init)))
    }

    @Test func aLastAnswerIsOfItsAccountAndBackend() throws {
        func last(_ account: String, _ backend: String) throws -> LastAnswer {
            var configuration = ChappieConfiguration()
            configuration.keychainAccount = account
            configuration.endpoints = ChappieEndpoints(
                issuer: configuration.endpoints.profile.issuer, backend: try #require(URL(string: backend)))
            return try #require(LastAnswer(environment: home.environment(), configuration: configuration))
        }
        var summary = TransportSummary()
        try last("a/b", "https://x").keep(summary)
        #expect(try last("a/b", "https://x").read() == nil)
        summary.received(.connected(.webSocket))
        summary.received(.reconnecting(attempt: 1, maximum: 5, delay: .zero))
        try last("a/b", "https://x").keep(summary)
        let transport = try #require(try last("a/b", "https://x").read()?["transport"])
        #expect(TransportSummary.words(transport) == "websocket, 1 reconnect")
        #expect(try last("a/b", "https://y").read() == nil)
        #expect(try last("a", "https://x").read() == nil)
    }
}
