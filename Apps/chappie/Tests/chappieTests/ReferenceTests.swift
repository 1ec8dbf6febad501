import ArgumentParser
import ChappieSDK
import Testing

@testable import chappie

/// The manual and the completions know every command and every option.
@Suite struct ReferenceTests {
    /// Every command's path, and the long names of its options, as the parser tells them.
    private func commands() throws -> [(path: [String], options: [String])] {
        func all(_ command: ChappieJSON, _ below: [String]) -> [(path: [String], options: [String])] {
            let path = below + [command["commandName"]?.string ?? ""]
            let options = (command["arguments"]?.array ?? []).flatMap { $0["names"]?.array ?? [] }
                .filter { $0["kind"] == "long" }.compactMap { $0["name"]?.string }
            return [(path, options)] + (command["subcommands"]?.array ?? []).flatMap { all($0, path) }
        }
        let help = try ChappieJSON(parsing: ChappieCommand._dumpHelp())
        return all(try #require(help["command"]), []).filter { $0.path.last != "help" }
    }

    private func manual() throws -> String { ManualPage(try ChappieJSON(parsing: ChappieCommand._dumpHelp())).text }

    @Test func theManualHasEveryCommandAndOption() throws {
        let commands = try commands()
        #expect(commands.count == 52 && commands.flatMap(\.options).count > 100)
        let page = try manual()
        for (path, options) in commands where path.count > 1 {
            #expect(page.contains(".SS \"" + path.joined(separator: " ")), "\(path)")
            for option in options {
                #expect(page.contains("\\-\\-" + option.replacing("-", with: "\\-") + "\\fR"), "\(path) --\(option)")
            }
        }
        for heading in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "COMMANDS", "ENVIRONMENT", "EXIT STATUS"] {
            #expect(page.ranges(of: ".SH \(heading)\n").count == 1, "\(heading)")
        }
    }

    @Test func `every option of every command appears once in the manual`() throws {
        let page = try manual()
        for option in ["json", "account", "simulate", "qr", "port"] {
            #expect(page.ranges(of: "\\-\\-\(option)\\fR").count == 1, "\(option)")
        }
    }

    /// Roff obeys lines that begin with a full stop or an apostrophe.
    @Test func theManualHasNoRequestsButItsOwn() throws {
        let requests = Set(
            try manual().split(separator: "\n").filter { ".'".contains($0.first ?? " ") }
                .map { $0.prefix { $0 != " " } })
        #expect(requests == [".TH", ".nh", ".ad", ".SH", ".SS", ".TP", ".PP", ".nf", ".fi", ".B", ".I", ".RI"])
    }

    @Test(arguments: Completions.Shell.allCases)
    func theCompletionsHaveEveryCommandAndOption(_ shell: Completions.Shell) throws {
        let script = ChappieCommand.completionScript(for: shell.known)
        for (path, options) in try commands() {
            #expect(script.contains(path[path.count - 1]), "\(path)")
            for option in options { #expect(script.contains(option), "\(path) --\(option)") }
        }
    }
}
