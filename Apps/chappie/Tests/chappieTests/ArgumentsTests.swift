import ArgumentParser
import Testing

@testable import chappie

@Suite struct ArgumentsTests {
    @Test(arguments: [
        ("ask hello", "ask hello"),
        ("--json ask hello", "ask --json hello"),
        ("--json -v --simulate ask --fast hello", "ask --json -v --simulate --fast hello"),
        ("--account me status", "status --account me"), ("--route plan status", "status --route plan"),
        ("--route=plan accounts use me", "accounts use --route=plan me"),
        ("--account=me --timeout=5 ask x", "ask --account=me --timeout=5 x"),
        ("--timeout 5 models", "models --timeout 5"),
        ("--json accounts use me", "accounts use --json me"),
        ("--json accounts", "accounts --json"),
        ("--json auth export --remove f", "auth export --json --remove f"),
        ("--verbose accounts --json", "accounts --verbose --json"),
        ("--help", "--help"),
        ("--json --help", "--json --help"),
        ("---completion ask -- x", "---completion ask -- x"),
        ("", ""),
        ("--json ask -t a -p one two words -p three four", "ask --json -t a -p one=two words -p three=four"),
        ("ask --param one=1 two -- -p a b", "ask --param one=1 two -- -p a b"), ("ask -p one", "ask -p one"),
        ("chat -p a b", "chat -p a=b"), ("--json config set a b", "config set --json a b"),
    ])
    func optionsBeforeTheCommandMoveBehindIt(_ given: String, _ expected: String) throws {
        #expect(
            try GlobalOptions.normalized(given.split(separator: " ").map(String.init)).joined(separator: " ")
                == expected)
    }

    @Test(arguments: [
        (["a question"], ["ask", "a question"]), (["What", "is", "TLS?"], ["ask", "What", "is", "TLS?"]),
        (["hello"], ["ask", "hello"]), (["-"], ["ask", "-"]), (["-c", "and now?"], ["ask", "-c", "and now?"]),
        (["--json", "-i", "x", "this?"], ["ask", "--json", "-i", "x", "this?"]),
        (["-t", "t", "-p", "a", "b"], ["ask", "-t", "t", "-p", "a=b"]), (["--account"], ["ask", "--account"]),
        (["What", "now"], ["ask", "What", "now"]), (["chap with a hat"], ["ask", "chap with a hat"]),
        (["what", "is", "this"], ["ask", "what", "is", "this"]),
    ])
    func argumentsWithoutACommandAreAQuestion(_ given: [String], _ expected: [String]) throws {
        #expect(try GlobalOptions.normalized(given) == expected)
        if given != ["--account"] { #expect(try ChappieCommand.parseAsRoot(expected) is Ask) }
    }

    @Test(
        arguments: [([], ["ask"]), (["--json"], ["ask", "--json"])] as [([String], [String])])
    func standardInputWithoutArgumentsIsAQuestion(_ given: [String], _ expected: [String]) throws {
        #expect(try GlobalOptions.normalized(given) { true } == expected)
        #expect(try GlobalOptions.normalized(given) { false } == given)
    }

    @Test(arguments: [
        ("lgoin", "login"), ("logni --account me", "login"), ("thread list", "threads"), ("stauts", "status"),
        ("hepl", "help"), ("threads shwo", "show"), ("threads serach x", "search"), ("config lst", "list"),
    ])
    func aMisspeltCommandIsNoQuestion(_ given: String, _ meant: String) throws {
        let error = try #require(throws: ValidationError.self) {
            try GlobalOptions.normalized(given.split(separator: " ").map(String.init))
        }
        #expect(error.message.contains("Did you mean \(meant)?"))
        #expect(ChappieCommand.exitCode(for: error).rawValue == ExitStatus.usage.rawValue)
    }

    @Test(arguments: [
        "login --no-browser --qr always", "login --route plan", "ask --route device x", "logout", "status --json",
        "ask --model m --effort high --transport sse what is it",
        "chat --fast", "models --all", "usage", "accounts", "accounts list", "accounts use me", "accounts remove me",
        "auth export --remove f", "auth import f", "doctor --timeout 3",
        "simulator --port 8080 --auto-approve --rate 3",
        "ask --account me --verbose --simulate -",
        "config", "config list --model m", "config set model m", "config set tools a b", "config unset model",
        "config path", "config edit", "chat -s be -t t -p a=b -f f -i i --schema g", "ask --no-ephemeral x",
        "ask --last-block x", "threads show -r", "threads show -x -n 3", "threads list --model m --since 7d",
        "threads list --usage", "threads archive --undo t", "threads verify --repair --new-key",
        "threads rename t My words",
        "chat --no-status-line", "config list -t t --ephemeral --status-line",
        "search a b --domain swift.org --domain example.com --recent 7d", "search --open https://example.com/",
        "draw -o f --force -i a -i b --size 1024x1536 --quality low --transparent -m m A fox", "ask --draw x",
        "chat --draw", "mcp --search --draw",
        "ask --schema g -m m -s be -i a -i b -f c -o d -x -t e -p f=g --verbosity low x",
    ])
    func everyCommandParses(_ line: String) throws {
        let command = try ChappieCommand.parseAsRoot(line.split(separator: " ").map(String.init))
        #expect(command is any ConsoleCommand)
    }

    @Test(arguments: [
        "ask --transport pigeon x", "ask --effort", "models extra", "accounts use", "nothing", "login -x",
        "login --qr perhaps", "login --route api", "status --route", "threads list --usage --all", "threads rename t",
        "search", "search --open https://example.com/ words", "draw --size large x", "draw --size 0x1 x",
        "draw --quality best x", "draw -i 1 -i 2 -i 3 -i 4 -i 5 -i 6 x", "draw -i - -i - x", "draw --json -o - x",
        "threads compact", "threads path", "threads usage", "threads unarchive t", "threads salvage d", "threads rekey",
    ])
    func anythingElseIsWrongUsage(_ line: String) throws {
        let error = try #require(throws: (any Error).self) {
            try ChappieCommand.parseAsRoot(line.split(separator: " ").map(String.init))
        }
        #expect(ChappieCommand.exitCode(for: error).rawValue == ExitStatus.usage.rawValue)
    }

    @Test func `threads has thirteen commands`() {
        #expect(
            ChappieCommand.names(in: "threads") == [
                "list", "show", "search", "export", "import", "rename", "archive", "delete", "fork", "resume", "backup",
                "restore", "verify",
            ])
    }

    /// Without a name the parser derives one by reflection at each start.
    @Test func everyCommandHasItsNameWrittenDown() {
        func names(_ command: any ParsableCommand.Type) -> [String?] {
            [command.configuration.commandName] + command.configuration.subcommands.flatMap(names)
        }
        #expect(!names(ChappieCommand.self).contains(nil))
        #expect(names(ChappieCommand.self).count == 52)
    }
}
