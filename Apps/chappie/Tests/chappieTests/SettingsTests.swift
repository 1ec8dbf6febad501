import ArgumentParser
@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
import ChappieSDK
import FoundationEssentials
import Glibc
import Testing

@_spi(ChappieInternals) @testable import chappie

@Suite struct SettingsTests {
    private let home = TemporaryFolder()

    private func settings(_ variables: [String: String] = [:], _ arguments: [String] = []) throws -> ResolvedSettings {
        try ResolvedSettings(options: GlobalOptions.parse(arguments), environment: home.environment(variables))
    }

    @Test func withoutAnythingSetEverythingIsTheDefault() throws {
        let settings = try settings()
        #expect(settings.store == .keyring && !settings.isStoreChosen)
        #expect(settings.configuration.keychainAccount == "default")
        #expect(settings.configuration.endpoints == .chatGPT)
        #expect(settings.configuration.network == .default)
        // As in the window of chappie-gtk.
        #expect(settings.configuration.automaticCompaction == 0.8)
        #expect(settings.issuer == nil && settings.givenURLs.isEmpty)
    }

    @Test func `arguments override the environment, which overrides stored settings`() async throws {
        let environment = home.environment()
        try await ProgramNotes.change(environment) {
            $0.add("kept", of: nil)
            try $0.use("kept", of: nil)
            $0.store = .memory
        }
        #expect(try settings().store == .memory && settings().isStoreChosen)
        try await SettingsFile.change(environment) { $0[.store] = "file" }
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
        #expect(settings.store == .memory)
        #expect(settings.isStoreChosen)
        #expect(settings.givenURLs.isEmpty)
    }

    // MARK: Routes

    @Test func `each route has its own slot and its own addresses`() throws {
        let device = try settings([:], ["--route", "device"])
        let plan = try settings([:], ["--route", "plan"])
        #expect(device.configuration.endpoints == .chatGPT && device.issuer == nil)
        #expect(plan.configuration.endpoints == .continueWithChatGPT(appName: "Chappie"))
        #expect(plan.configuration.credentialSlot != device.configuration.credentialSlot)
        #expect(plan.issuer != nil)
        #expect(plan.issuer == plan.issuers[.plan])
        #expect(plan.issuers[.device] == nil)
        #expect(plan.issuers == device.issuers)
        #expect(plan.issuerWords == "https://auth.openai.com for https://api.openai.com")
    }

    @Test func `the last login's route is used unless another one is named`() async throws {
        let environment = home.environment()
        #expect(try settings().route == .device)
        try await ProgramNotes.change(environment) { $0.use(Route.plan) }
        #expect(try settings().route == .plan)
        #expect(try settings([:], ["--route", "device"]).route == .device)
        #expect(try settings([:], ["--simulate"]).route == .device)
        try await ProgramNotes.change(environment) { $0.use(Route.device) }
        #expect(try settings().route == .device)
    }

    @Test func `login uses the device code unless the route is named`() throws {
        for (line, route) in [(["login"], Route.device), (["login", "--route", "plan"], .plan)] {
            let command = try #require(try ChappieCommand.parseAsRoot(line) as? Login)
            #expect(command.options.route == route)
        }
        #expect(Route.device.login == "`chappie login`" && Route.plan.login == "`chappie login --route plan`")
    }

    @Test func accountsOfTheRoutesAreKeptApart() async throws {
        let environment = home.environment()
        let (device, plan) = (try settings(), try settings([:], ["--route", "plan"]))
        try await ProgramNotes.change(environment) {
            $0.add("me", of: device.issuer)
            $0.add("me", of: plan.issuer)
            $0.add("you", of: plan.issuer)
            try $0.use("you", of: plan.issuer)
        }
        let kept = ProgramNotes.read(environment).notes
        #expect(kept.accounts(of: nil).names == ["me"] && kept.accounts(of: nil).current == nil)
        #expect(kept.accounts(of: plan.issuer).names == ["me", "you"])
        #expect(try settings([:], ["--route", "plan"]).configuration.keychainAccount == "you")
        #expect(try settings().configuration.keychainAccount == "default")
    }

    @Test func otherAddressesKeepTheFormOfTheirRoute() throws {
        let variables = ["CHAPPIE_ISSUER": "http://127.0.0.1:1", "CHAPPIE_BACKEND": "http://127.0.0.1:1/v1"]
        let endpoints = try settings(variables, ["--route", "plan"]).configuration.endpoints
        #expect(endpoints.responsesURL.absoluteString == "http://127.0.0.1:1/v1/responses")
        #expect(endpoints.usesPlan && endpoints.usageURL == nil)
    }

    @Test func aSimulationHasTheDeviceCodeAlone() throws {
        let error = try #require(throws: CommandLineError.self) {
            try settings([:], ["--simulate", "--route", "plan"])
        }
        #expect(error.status == .usage && error.suggestion?.contains("--simulate") == true)
    }

    @Test(arguments: [" ", "\n", "\r\n", "\t"]) func `white space around a value does not matter`(blank: String) throws
    {
        let settings = try settings([
            "CHAPPIE_MODEL": "gpt-6-luna\(blank)", "CHAPPIE_ACCOUNT": "\(blank)work\(blank)",
            "CHAPPIE_CREDENTIAL_STORE": "file\(blank)", "CHAPPIE_THREADS_LIMIT": "3\(blank)",
            "CHAPPIE_CA_FILE": "/ca.pem\(blank)", "CHAPPIE_MINIMUM_TLS": "1.3\(blank)",
            "CHAPPIE_ISSUER": "https://host\(blank)", "CHAPPIE_PASSPHRASE_FILE": "/phrase\(blank)",
        ])
        let configuration = settings.configuration
        #expect(settings[.model]?.string == "gpt-6-luna" && configuration.keychainAccount == "work")
        #expect(settings.store == .file)
        #expect(settings.threadLimit == 3 << 20)
        #expect(settings.passphraseFile == "/phrase")
        #expect(configuration.network.extraCAFile == "/ca.pem" && configuration.network.minimumTLS == .tls13)
        #expect(configuration.endpoints.issuer.absoluteString == "https://host")
        #expect(settings.networkProblem == nil)
    }

    @Test func `a network setting that can't be used is an error for those who need the network`() throws {
        let settings = try settings(["CHAPPIE_MINIMUM_TLS": "1.1", "CHAPPIE_CA_FILE": "/nonexistent"])
        #expect(settings.networkProblem?.suggestion?.contains("1.2 or 1.3") == true)
        #expect(settings.configuration.network.minimumTLS == .tls13)
    }

    @Test(arguments: [(nil, true), ("", true), ("dumb", true), ("unknown", true), ("xterm", false), ("vt100", false)])
    func `a terminal that is not known is plain`(name: String?, isPlain: Bool) {
        #expect(ProgramEnvironment { $0 == "TERM" ? name : nil }.isTerminalPlain == isPlain)
    }

    @Test func theRoomForThreadsIsASetting() throws {
        #expect(try settings([:]).threadLimit == 512 << 20)
        #expect(try settings(["CHAPPIE_THREADS_LIMIT": "3"]).threadLimit == 3 << 20)
    }

    @Test func addressesAreTakenOverAndCheckedBeforeUse() throws {
        let settings = try settings(["CHAPPIE_ISSUER": "http://127.0.0.1:8080", "CHAPPIE_BACKEND": ""])
        #expect(settings.configuration.endpoints.issuer.absoluteString == "http://127.0.0.1:8080")
        #expect(settings.givenURLs.count == 2)
    }

    @Test func `without a timeout, the deadlines are the defaults`() throws {
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

@Suite struct SettingsFileTests {
    private let home = TemporaryFolder()
    private var file: String { home.path + "/.config/chappie/settings.json" }

    private func kept() -> SettingsFile { SettingsFile(environment: home.environment()) }

    /// Each source, and what is set there: the strongest one counts.
    @Test(arguments: Setting.allCases)
    func `a flag overrides the environment, which overrides the file`(_ setting: Setting) throws {
        let values: (flag: ChappieJSON, environment: ChappieJSON, file: ChappieJSON) =
            switch setting.kind {
            case .text, .word: ("a", "b", "c")
            case .oneOf(let words): (.string(words[2]), .string(words[1]), .string(words[0]))
            case .yesOrNo: (true, true, false)
            case .size: (1, 2, 3)
            case .files, .names: (["a"], ["b"], ["c"])
            }
        #expect(try setting.chosen(home.environment(), SettingsFile())?.value == nil)
        let text: ChappieJSON = .object([setting.rawValue: values.file])
        let kept = SettingsFile(parsing: text.serializedBytes(), path: "f")
        let file = try #require(try setting.chosen(home.environment(), kept))
        #expect(file.value == values.file && file.source == .file)
        if let variable = setting.variable {
            let word = values.environment.string ?? values.environment.serialized()
            let chosen = try #require(try setting.chosen(home.environment([variable: word]), kept))
            #expect(chosen.value == values.environment && chosen.source == .environment)
            #expect(try setting.chosen(home.environment([variable: ""]), kept)?.source == .file)
        }
        let flags = [
            Setting.model: "--model", .effort: "--effort", .verbosity: "--verbosity", .transport: "--transport",
            .markdown: "--markdown", .tools: "--tools",
        ]
        guard let flag = flags[setting] else { return }
        let word = values.flag.string ?? values.flag.array?.first?.string ?? ""
        #expect(try AnswerOptions.parse([flag, word]).given == [setting: values.flag])
        try PrivateFile.replace(self.file, with: text.serializedBytes())
        var options = try AnswerOptions.parse([flag, word])
        let settings = try ResolvedSettings(options: GlobalOptions.parse([]), environment: home.environment())
        try options.fill(from: nil, settings, goesOn: false)
        #expect(options.given == [setting: values.flag])
    }

    /// The template of a question stands between the command line and the environment.
    @Test(
        arguments: [
            ([], "", [:], nil, nil), ([], "", [:], "file", "file"),
            ([], "", ["CHAPPIE_MODEL": "variable"], "file", "variable"),
            ([], "model: template", ["CHAPPIE_MODEL": "variable"], "file", "template"),
            (["--model", "flag"], "model: template", ["CHAPPIE_MODEL": "variable"], "file", "flag"),
        ] as [([String], String, [String: String], String?, String?)])
    func theModelIsTheStrongestOnes(
        _ arguments: [String], _ template: String, _ variables: [String: String], _ file: String?, _ expected: String?
    ) throws {
        if let file { try PrivateFile.replace(self.file, with: Array("{\"model\":\"\(file)\"}".utf8)) }
        let settings = try ResolvedSettings(options: GlobalOptions.parse([]), environment: home.environment(variables))
        for goesOn in [false, true] {
            var options = try AnswerOptions.parse(arguments)
            try options.fill(
                from: try Template(parsing: "---\n\(template)\n---\n", name: "t"), settings, goesOn: goesOn)
            // A conversation that goes on keeps its model, unless it is named for this question.
            let isNamed = !arguments.isEmpty || !template.isEmpty
            #expect(options.model == (goesOn && !isNamed ? nil : expected))
        }
    }

    @Test func anEmptyFlagLeavesTheFilesToolsOut() throws {
        try PrivateFile.replace(file, with: Array(#"{"tools":["tools.json","/etc/tools.json","~/t.json"]}"#.utf8))
        let settings = try ResolvedSettings(options: GlobalOptions.parse([]), environment: home.environment())
        for (arguments, expected) in [
            ([], [home.path + "/.config/chappie/tools.json", "/etc/tools.json", home.path + "/t.json"]),
            (["--tools", ""], []),
            (["--tools", "t"], ["t"]),
        ] {
            var options = try AnswerOptions.parse(arguments)
            try options.fill(from: nil, settings, goesOn: false)
            #expect(options.tools == expected)
        }
    }

    /// A hostile or broken file is named with its line and member, and nothing of it is used.
    @Test(arguments: [
        ("{\n  \"modle\": \"x\"\n}", "line 2: there is no setting modle. Did you mean model?"),
        ("{\"model\": \"a\",\n\"model\": 7}", "model is there twice"),
        ("{\"model\": {\"model\": \"a\"}}", "model takes a name"), ("{\"status_line\": 1}", "true or false"),
        ("{\"store\": \"\\u006bloud\"}", "keyring, file or memory"),
        ("{\n\n\"transport\": \"pigeon\"}", "line 3: transport takes auto, websocket or sse"),
        ("{\"tools\": [\"a\", 7]}", "line 1: tools[1] takes the path of a file"),
        ("{\"tools\": \"a\"}", "tools takes an array"),
        ("{\"threads_limit\": 0}", "1 to 1048576"), ("{\"threads_limit\": 1e9}", "1 to 1048576"),
        ("{\"keep_threads\": \"no\"}", "true or false"),
        ("{\"model\": \"\"}", "model takes a name without spaces"), ("{\"model\": null}", "model takes a name"),
        ("{\n\"model\": \"a\"\n\"effort\": \"b\"}", "line 3: it is not JSON"), ("{\n\n", "line 3: it is not JSON"),
        ("[]", "it is not a JSON object"), ("{\"\u{202E}\\u001b[2J\": 1}", "there is no setting"),
        ("", "it is empty"), ("\u{FEFF}{}", "it begins with a byte order mark"),
        ("\u{FEFF}{\n\"model\": 7}", "line 2: model takes a name"), ("{\"accounts\": [\"me\"]}", "no setting accounts"),
        (String(repeating: "[", count: 100_000), "it is not JSON"),
    ])
    func aBrokenFileIsAnErrorThatNamesThePlace(_ text: String, _ says: String) throws {
        let error = try #require(throws: CommandLineError.self) {
            let settings = SettingsFile(parsing: Array(text.utf8), path: "/settings.json")
            try settings.check(settings.faults.count > 1 ? .unusable : .blank)
        }
        #expect(error.status == .usage && error.message.hasPrefix("/settings.json"), "\(error.message)")
        #expect(error.message.contains(says), "\(error.message)")
        #expect(!error.message.contains("\u{1B}") && !error.message.contains("\u{202E}"))
    }

    @Test func whatTheUserSetsIsWrittenForPeople() async throws {
        try await SettingsFile.change(home.environment()) {
            $0[.tools] = ["/a b", "/c"]
            $0[.model] = "m"
        }
        let text = String(decoding: try WholeFile.read(file), as: UTF8.self)
        #expect(text == "{\n  \"model\": \"m\",\n  \"tools\": [\"/a b\",\"/c\"]\n}\n")
        try await SettingsFile.change(home.environment()) { $0[.tools] = nil }
        #expect(kept()[.tools] == nil)
        #expect(kept()[.model] == "m")
        #expect(kept().faults.isEmpty)
        await #expect(throws: CommandLineError.self) {
            try await SettingsFile.replace(home.environment(), with: [], ifStill: Array("{}".utf8))
        }
    }

    @Test(arguments: ["{", "[]", "\"text\"", "{\"from_a_newer_version\":true}", "{\"effort\":1}"])
    func anotherFileIsNamedAndLeftAlone(_ text: String) async throws {
        try PrivateFile.replace(file, with: Array(text.utf8))
        await #expect(throws: CommandLineError.self) {
            try await SettingsFile.change(home.environment()) { $0[.store] = "file" }
        }
        #expect(try WholeFile.read(file) == Array(text.utf8))
    }

    /// It names programs that the model may run, and must never be passed over.
    @Test(arguments: ["pipe", "folder", "link to nothing", "file that all can write", "file of 2 MiB"])
    func aFileThatCannotBeTrustedIsAnError(_ kind: String) async throws {
        try FileManager.default.createDirectory(
            atPath: home.path + "/.config/chappie", withIntermediateDirectories: true)
        let says: String
        switch kind {
        case "pipe":
            #expect(mkfifo(file, 0o600) == 0)
            says = "it is not a regular file"
        case "folder":
            #expect(mkdir(file, 0o700) == 0)
            says = "Is a directory"
        case "link to nothing":
            #expect(symlink(home.path + "/elsewhere.json", file) == 0)
            says = "No such file"
        case "file that all can write":
            try PrivateFile.replace(file, with: Array("{}".utf8))
            #expect(chmod(file, 0o666) == 0)
            says = "every user can change it"
        default:
            try PrivateFile.replace(file, with: [UInt8](repeating: 0x20, count: 17 << 20))
            says = "larger than 16 MiB"
        }
        let notice = try #require(kept().notice)
        #expect(try notice.contains(says) && settings(.credential).notices == [notice])
        let severity = kind == "link to nothing" ? SettingsFile.Fault.Severity.unknown : .unusable
        // A command that asks passes over a link, as over a missing file.
        let works: [() throws -> Void] = [{ try kept().check(severity) }, { _ = try settings() }]
        for work in works.prefix(severity == .unknown ? 1 : 2) {
            let error = try #require(throws: CommandLineError.self, performing: work)
            #expect(error.message.contains(file) && error.message.contains(says), "\(error.message)")
            #expect(error.status == .usage && error.suggestion != nil)
        }
        await #expect(throws: CommandLineError.self) {
            try await SettingsFile.change(home.environment()) { $0[.model] = "m" }
        }
    }

    private func settings(_ use: SettingsUse = .all) throws -> ResolvedSettings {
        try ResolvedSettings(options: GlobalOptions.parse([]), environment: home.environment(), use: use)
    }

    /// Each costs a line, and hides no choice of the user's.
    @Test(arguments: [
        "{\"effort\":\"low\",\"from_a_newer_version\":{\"a\":1}}", "\u{FEFF}{\"effort\":\"low\"}",
        "{\"effort\":\"low\",\"model\":null}",
    ])
    func `what is harmless in the file stops no command`(_ text: String) async throws {
        try PrivateFile.replace(file, with: Array(text.utf8))
        for use in [SettingsUse.credential, .network, .all] {
            let settings = try self.settings(use)
            #expect(settings.notices.count == 1 && settings[.effort] == "low")
        }
        #expect(throws: CommandLineError.self) { try kept().check(.blank) }
    }

    @Test func `only a command that uses a setting stops at it`() throws {
        try PrivateFile.replace(file, with: Array("{\"effort\":7,\"model\":\"m\"}".utf8))
        for use in [SettingsUse.credential, .network] {
            #expect(try settings(use).notices.count == 1 && settings(use)[.model] == "m")
        }
        #expect(throws: CommandLineError.self) { try settings() }
        let variables = [
            "CHAPPIE_THREADS_LIMIT": "512M", "CHAPPIE_MINIMUM_TLS": "1.1", "CHAPPIE_CA_FILE": "/nonexistent",
        ]
        let elsewhere = TemporaryFolder().environment(variables)
        let lenient = try ResolvedSettings(
            options: GlobalOptions.parse([]), environment: elsewhere, use: .credential)
        #expect(lenient.notices.count == 2)
    }

    @Test func `an empty file and a mark are no obstacle to a change`() async throws {
        for text in ["", "\n", "\u{FEFF}{\"model\":\"m\"}", "{\"model\":\"m\",\"tools\":null}"] {
            try PrivateFile.replace(file, with: Array(text.utf8))
            try await SettingsFile.change(home.environment()) { $0[.effort] = "low" }
            #expect(kept().faults.isEmpty && kept()[.effort] == "low")
            #expect(kept()[.model] == (text.contains("model") ? "m" : nil))
        }
    }

    @Test func `unset removes any member and leaves the others as they are`() async throws {
        let text = "{\"x\":{\"a\":1},\"model\":7,\"model\":\"m\",\"from_a_newer_version\":null}"
        try PrivateFile.replace(file, with: Array(text.utf8))
        for name in ["from_a_newer_version", "model"] {
            #expect(try await SettingsFile.remove(name, home.environment()))
            #expect(try await !SettingsFile.remove(name, home.environment()))
        }
        #expect(try ChappieJSON(parsing: WholeFile.read(file)) == ["x": ["a": 1]])
    }

    @Test func aLinkToAFileElsewhereIsFollowedAndStays() async throws {
        let place = home.path + "/dotfiles/settings.json"
        try PrivateFile.replace(place, with: Array("{\"model\":\"a\"}".utf8))
        try FileManager.default.createDirectory(
            atPath: home.path + "/.config/chappie", withIntermediateDirectories: true)
        #expect(symlink(place, file) == 0)
        try await SettingsFile.change(home.environment()) { $0[.effort] = "low" }
        #expect(kept()[.model] == "a" && kept()[.effort] == "low")
        #expect(try ChappieJSON(parsing: WholeFile.read(place))["effort"] == "low")
        #expect(try FileManager.default.destinationOfSymbolicLink(atPath: file) == place)
    }

    @Test func aLastAnswerIsOfItsAccountAndBackend() throws {
        func last(_ account: String, _ backend: String) throws -> LastAnswer {
            var configuration = ChappieConfiguration()
            configuration.keychainAccount = account
            configuration.endpoints = ChappieEndpoints(
                issuer: configuration.endpoints.issuer, backend: try #require(URL(string: backend)))
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

@Suite struct ProgramNotesTests {
    private let home = TemporaryFolder()
    private var file: String { home.path + "/.local/state/chappie/notes.json" }
    private let elsewhere = "http://127.0.0.1:1 http://127.0.0.1:1"

    private func notes() -> ProgramNotes { ProgramNotes.read(home.environment()).notes }

    @Test func accountsBelongToTheirIssuer() async throws {
        try await ProgramNotes.change(home.environment()) {
            $0.add("one", of: nil)
            $0.add("two", of: nil)
            $0.add("two", of: nil)
            $0.add("other", of: elsewhere)
            try $0.use("two", of: nil)
        }
        #expect(notes().accounts(of: nil) == .init(names: ["one", "two"], current: "two"))
        #expect(notes().accounts(of: elsewhere) == .init(names: ["other"]))
        await #expect(throws: CommandLineError.self) {
            try await ProgramNotes.change(home.environment()) { try $0.use("one", of: elsewhere) }
        }
        try await ProgramNotes.change(home.environment()) {
            $0.remove("two", of: nil)
            $0.remove("one", of: elsewhere)
        }
        #expect(notes().accounts(of: nil) == .init(names: ["one"]))
        #expect(notes().accounts(of: elsewhere).names == ["other"])
    }

    @Test func `members of a later version outlive a change`() async throws {
        let text = #"{"later":[1],"accounts":["a"],"issuers":{"x":{"later":2,"accounts":["b"]}}}"#
        try PrivateFile.replace(file, with: Array(text.utf8))
        try await ProgramNotes.change(home.environment()) {
            $0.add("c", of: nil)
            $0.remove("b", of: "x")
            $0.store = .file
        }
        let kept = try ChappieJSON(parsing: WholeFile.read(file))
        #expect(kept["later"] == [1] && kept["issuers"] == ["x": ["later": 2]])
        #expect(notes().accounts(of: nil).names == ["a", "c"] && notes().store == .file)
    }

    @Test(arguments: ["{", "[]", "\u{0}"])
    func `damaged notes stop no command and are not written over`(_ text: String) async throws {
        try PrivateFile.replace(file, with: Array(text.utf8))
        #expect(ProgramNotes.read(home.environment()).problem?.message.contains(file) == true)
        let settings = try ResolvedSettings(options: GlobalOptions.parse([]), environment: home.environment())
        #expect(settings.notices.count == 1 && settings.configuration.keychainAccount == "default")
        await #expect(throws: CommandLineError.self) {
            try await ProgramNotes.change(home.environment()) { $0.add("me", of: nil) }
        }
        #expect(try WholeFile.read(file) == Array(text.utf8))
    }

    @Test func `notes of nothing but blanks are none`() async throws {
        try PrivateFile.replace(file, with: [])
        #expect(ProgramNotes.read(home.environment()).problem == nil)
        try await ProgramNotes.change(home.environment()) { $0.add("me", of: nil) }
        #expect(notes().accounts(of: nil).names == ["me"])
    }

    @Test func changesAtTheSameTimeAreAllKept() async throws {
        let environment = home.environment()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<8 {
                // On a busy machine eight changes may take longer than a user would wait.
                group.addTask {
                    try await ProgramNotes.change(environment, within: .seconds(300)) { $0.add("\(number)", of: nil) }
                }
            }
            for setting in [Setting.model, .effort, .verbosity, .template] {
                group.addTask {
                    try await SettingsFile.change(environment, within: .seconds(300)) { $0[setting] = "low" }
                }
            }
            try await group.waitForAll()
        }
        #expect(Set(notes().accounts(of: nil).names) == Set((0..<8).map(String.init)))
        let settings = SettingsFile(environment: environment)
        #expect(Set(settings.values.keys) == [.model, .effort, .verbosity, .template])
    }
}

@Suite struct ProgramEnvironmentTests {
    @Test func `a folder that can't be used is named with its variable`() throws {
        let home = TemporaryFolder()
        let cases = [
            (["HOME": "relative"], "HOME is not an absolute path"), (["HOME": "/a\u{FFFD}"], "HOME is not UTF-8"),
            (["HOME": home.path, "XDG_CONFIG_HOME": "/c\u{FFFD}"], "XDG_CONFIG_HOME is not UTF-8"),
        ]
        for (variables, says) in cases {
            let environment = ProgramEnvironment { variables[$0] }
            for work in [
                { _ = try SettingsFile.path(environment) }, { _ = try Template(named: "t", environment) },
            ] as [() throws -> Void] {
                let error = try #require(throws: CommandLineError.self, performing: work)
                #expect(error.message.contains(says) && error.status == .usage, "\(error.message)")
            }
        }
    }

    @Test func `relative folders count for nothing`() throws {
        let home = TemporaryFolder()
        let environment = home.environment(["XDG_CONFIG_HOME": "cfg", "XDG_STATE_HOME": "~/.state"])
        #expect(try SettingsFile.path(environment) == home.path + "/.config/chappie/settings.json")
        #expect(try environment.folder(\.state, for: "threads") == home.path + "/.local/state/chappie")
    }

    @Test func `a variable that names a file is not repaired`() throws {
        let environment = ProgramEnvironment { ["EDITOR": "/e\u{FFFD}", "VISUAL": "v"][$0] }
        #expect(try environment.path("VISUAL") == "v" && environment.path("TMPDIR") == nil)
        let error = try #require(throws: CommandLineError.self) { try environment.path("EDITOR") }
        #expect(error.message == "EDITOR is not UTF-8.")
    }
}
