@_spi(ChappieInternals) import ChappieFiles
import ChappieSDK
import FoundationEssentials
import Glibc

/// A prompt with variables, kept in a file `NAME.md`. The help of `chappie ask` describes the format.
struct Template: Equatable {
    let name: String
    /// The values of `model`, `system`, `effort` and `verbosity`.
    private(set) var settings: [String: String] = [:]
    /// The variables that can be left out, with their defaults.
    private(set) var defaults: [String: String] = [:]
    private(set) var prompt = ""

    private static let known = ["model", "system", "effort", "verbosity"]

    // MARK: Reading

    /// Reads the user's template, or the file at a path that contains a slash.
    ///
    /// - Throws: ``CommandLineError``.
    init(named name: String, _ environment: ProgramEnvironment) throws {
        let path: String
        if name.contains("/") {
            path = name
        } else {
            path = try Self.path(name, environment)
            guard access(path, F_OK) == 0 else {
                throw Self.missing(name, try environment.folder(\.configuration, for: "templates") + Self.subfolder)
            }
        }
        guard let text = String(validating: UserFile.unmarked(try WholeFile.read(path)), as: UTF8.self) else {
            throw CommandLineError.usage("\(path) is not text in UTF-8.")
        }
        try self.init(parsing: text, name: name)
    }

    private static let subfolder = "/templates"

    /// Returns the templates of the user.
    static func names(_ environment: ProgramEnvironment) -> [String] {
        environment.folders.configuration.map { names(in: $0 + subfolder) } ?? []
    }

    private static func names(in folder: String) -> [String] {
        let files = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
        return files.filter { $0.hasSuffix(".md") }.map { String($0.dropLast(3)) }.sorted()
    }

    private static func missing(_ name: String, _ folder: String) -> CommandLineError {
        let names = names(in: folder)
        return .usage(
            "There is no template \"\(name)\".",
            suggestion: names.isEmpty
                ? "Write one: \(folder)/\(name).md" : "There are: \(names.prefix(50).joined(separator: ", ")).")
    }

    /// Parses the text of a template.
    ///
    /// - Throws: ``CommandLineError`` that names the line.
    init(parsing text: String, name: String) throws {
        self.name = name
        var lines = text.split(omittingEmptySubsequences: false) { $0 == "\n" || $0 == "\r\n" }.map(String.init)[...]
        guard lines.first == "---" else {
            prompt = Self.trimmed(lines)
            return
        }
        lines.removeFirst()
        guard let end = lines.firstIndex(of: "---") else {
            throw Self.fault(name, 1, "the settings do not end with a line of three hyphens")
        }
        var key: String?
        for (index, line) in zip(lines.indices, lines[..<end]) {
            if let first = line.first, first == " " || first == "\t" {
                guard let key else { throw Self.fault(name, index + 1, "it belongs to no setting") }
                set(key, (value(key).map { $0.isEmpty ? "" : $0 + "\n" } ?? "") + line.drop { $0 == " " || $0 == "\t" })
            } else if !line.isEmpty, !line.hasPrefix("#") {
                guard let colon = line.firstIndex(of: ":") else { throw Self.fault(name, index + 1, "it has no colon") }
                let word = String(line[..<colon])
                guard Self.known.contains(word) || word.first == "$" && Self.isName(word.dropFirst()) else {
                    let words = Self.known.joined(separator: ", ")
                    throw Self.fault(name, index + 1, "\(word) is none of \(words), $name")
                }
                set(word, String(line[colon...].dropFirst().drop { $0 == " " }))
                key = word
            }
        }
        prompt = Self.trimmed(lines[end...].dropFirst())
    }

    private func value(_ key: String) -> String? {
        key.first == "$" ? defaults[String(key.dropFirst())] : settings[key]
    }

    private mutating func set(_ key: String, _ value: String) {
        if key.first == "$" { defaults[String(key.dropFirst())] = value } else { settings[key] = value }
    }

    private static func fault(_ name: String, _ line: Int, _ what: String) -> CommandLineError {
        .usage("The template \"\(name)\" can't be used, line \(line): \(what).", suggestion: "See chappie ask --help.")
    }

    /// Returns the lines as text without empty lines at both ends.
    private static func trimmed(_ lines: ArraySlice<String>) -> String {
        var lines = lines.drop { $0.isEmpty }
        while lines.last?.isEmpty == true { lines.removeLast() }
        return lines.joined(separator: "\n")
    }

    // MARK: Filling

    /// Parses `name=value` arguments. For each name, the last argument counts.
    ///
    /// - Throws: ``CommandLineError``.
    static func parameters(_ arguments: [String]) throws -> [String: String] {
        var parameters: [String: String] = [:]
        for argument in arguments {
            guard let sign = argument.firstIndex(of: "="), isName(argument[..<sign]) else {
                throw CommandLineError.usage(
                    "-p takes a variable's name and its value.", suggestion: "Write: -p name VALUE")
            }
            parameters[String(argument[..<sign])] = String(argument[sign...].dropFirst())
        }
        return parameters
    }

    /// Returns the system text and the prompt with their variables replaced. Variables in the replacements are left
    /// unchanged.
    ///
    /// - Throws: ``CommandLineError`` that names a variable without a value, or a value without a variable.
    func filled(with question: String, _ parameters: [String: String]) throws -> (system: String?, prompt: String) {
        var values = defaults.merging(parameters) { _, given in given }
        values["input"] = question
        var used: Set<String> = []
        let system = try settings["system"].map { try filled($0, values, &used) }
        let prompt = try filled(prompt, values, &used)
        if let unknown = parameters.keys.sorted().first(where: { !used.contains($0) }) {
            throw CommandLineError.usage(
                "The template \"\(name)\" has no variable $\(unknown).",
                suggestion: used.isEmpty
                    ? "It has none." : "It has \(used.sorted().map { "$" + $0 }.joined(separator: ", ")).")
        }
        let parts = [prompt, used.contains("input") ? "" : question].filter { !$0.isEmpty }
        guard !parts.isEmpty else { throw CommandLineError.usage("There is nothing to ask.") }
        return (system, parts.joined(separator: "\n\n"))
    }

    private func filled(_ text: String, _ values: [String: String], _ used: inout Set<String>) throws -> String {
        var output = ""
        var rest = text[...]
        while let dollar = rest.firstIndex(of: "$") {
            output += rest[..<dollar]
            rest = rest[dollar...].dropFirst()
            if rest.first == "$" {
                output += "$"
                rest.removeFirst()
                continue
            }
            let isBraced = rest.first == "{"
            let name = (isBraced ? rest.dropFirst() : rest).prefix(while: Self.isNamePart)
            // A dollar sign before any other character is ordinary text.
            guard Self.isName(name), !isBraced || rest.dropFirst(name.count + 1).first == "}" else {
                output += "$"
                continue
            }
            rest = rest.dropFirst(name.count + (isBraced ? 2 : 0))
            guard let value = values[String(name)] else {
                throw CommandLineError.usage(
                    "The template \"\(self.name)\" needs a value for $\(name).",
                    suggestion: "Give it: -p \(name) VALUE")
            }
            used.insert(String(name))
            output += value
        }
        return output + rest
    }

    private static func isNamePart(_ character: Character) -> Bool {
        character.isASCII && (character.isLetter || character.isNumber || character == "_")
    }

    private static func isName(_ text: Substring) -> Bool {
        text.first.map { !$0.isNumber } == true && text.allSatisfy(isNamePart)
    }
}
