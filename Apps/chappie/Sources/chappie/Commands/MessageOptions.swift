import ArgumentParser
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
import ChappieJSONSchema
import ChappieSDK
import FoundationEssentials

/// The options for a question: instructions, attachments, a template, and the form of the answer.
struct MessageOptions: ParsableArguments {
    @Option(name: .shortAndLong, help: "Instructions for the model, given before the question.")
    var system: String?

    @Option(
        help: ArgumentHelp(
            "The form of the answer: a file with a JSON Schema, the schema itself, or \"name str, age int: in years\". Another answer is an error (65).",
            valueName: "schema"),
        completion: .file())
    var schema: String?

    @Option(
        name: .shortAndLong,
        help: ArgumentHelp(
            "An image to ask about: PNG, JPEG, GIF or WebP, a file, an address, or - for standard input (repeatable).",
            valueName: "file"),
        completion: .file())
    var image: [String] = []

    @Option(
        name: .shortAndLong,
        help: ArgumentHelp(
            "A file, a folder, an address, a tool server's resource (SERVER:ADDRESS), or - for standard input, to ask about (repeatable). Text becomes part of the question, anything else is attached.",
            valueName: "file"),
        completion: .file())
    var file: [String] = []

    @Option(
        name: .shortAndLong, help: "Ask with a template (see chappie templates).", completion: .templates)
    var template: String?

    @Option(help: ArgumentHelp("Ask with a prompt of a tool server.", valueName: "server:name"))
    var prompt: String?

    @Option(
        name: .shortAndLong,
        help: ArgumentHelp(
            "A template's variable, or a prompt's argument: -p NAME VALUE (repeatable).", valueName: "name=value"))
    var param: [String] = []

    /// Whether standard input is an attachment.
    var readsInput: Bool { image.contains("-") || file.contains("-") }

    /// Whether there is nothing but instructions.
    var isPlain: Bool {
        schema == nil && image.isEmpty && file.isEmpty && template == nil && prompt == nil && param.isEmpty
    }

    func validate() throws {
        guard (image + file).count(where: { $0 == "-" }) < 2 else {
            throw ValidationError("Standard input can be attached only once.")
        }
    }

    /// Reads the files and reports errors in the options before anything is asked.
    ///
    /// - Parameters:
    ///   - goesOn: whether an earlier conversation continues. The settings' template is then not used again.
    ///   - answer: the options that are filled from the template and the settings.
    func read(goesOn: Bool, filling answer: inout AnswerOptions, in program: Program) async throws -> MessageFrame {
        guard template == nil || prompt == nil else {
            throw CommandLineError.usage(
                "A template and a prompt both say what is asked.", suggestion: "Leave one out.")
        }
        let named = template ?? (goesOn || prompt != nil ? nil : program.settings[.template]?.string)
        let template = try named.flatMap { $0.isEmpty ? nil : try Template(named: $0, program.environment) }
        let parameters = try Template.parameters(param)
        guard template != nil || prompt != nil || parameters.isEmpty else {
            throw CommandLineError.usage(
                "-p sets a variable of a template, and there is no template.",
                suggestion: "Name the template: --template NAME.")
        }
        if let name = answer.model { answer.model = try await program.model(named: name) }
        answer.fill(from: template, program.settings, goesOn: goesOn)
        _ = try program.tools(of: answer)
        let offers = program.startedTools.offers
        let schema = try schema.map(Self.schema)
        var attachments: [ChappieInputMessage.Part] = []
        for name in image { attachments.append(try await Attachment.image(name)) }
        for name in file {
            if let resource = try await offers.attachments(name) {
                attachments += resource
            } else {
                attachments += try await Attachment.file(name, program.attachmentTransport, program.console)
            }
        }
        var frame = MessageFrame(system: system, schema: schema, attachments: attachments, template: template)
        frame.fileNames = (image + file).map { $0.split(separator: "/").last.map { String($0) } ?? $0 }
        if let prompt {
            frame.prompt = try await offers.prompt(prompt, parameters)
        } else {
            frame.parameters = parameters
        }
        return frame
    }

    /// Reads the schema from a file's name, from the schema itself, which begins with a brace, or from its short form.
    static func schema(_ argument: String) throws -> ChappieJSONSchema {
        let isInline = argument.first == "{"
        if !isInline, let short = try ShortSchema(argument) { return ChappieJSONSchema(short.json) }
        let bytes = isInline ? Array(argument.utf8) : UserFile.unmarked(try WholeFile.read(argument))
        do {
            let schema = ChappieJSONSchema(try ChappieJSON(parsing: bytes))
            try schema.check()
            return schema
        } catch {
            let reason = (error as? any LocalizedError)?.errorDescription ?? "It is not a JSON Schema."
            throw CommandLineError.usage(
                isInline ? reason : "\(argument): \(reason)", suggestion: "Give a JSON Schema (draft 2020-12).")
        }
    }
}

/// The instructions, attachments, template and schema for a question. The program has already read their files.
struct MessageFrame: Sendable {
    var system: String?
    var schema: ChappieJSONSchema?
    var attachments: [ChappieInputMessage.Part] = []
    var template: Template?
    var parameters: [String: String] = [:]
    /// A tool server's prompt, which replaces the template for one message.
    var prompt: [ChappieInputMessage] = []
    /// The names of the attachments.
    var fileNames: [String] = []
    /// Whether the template's instructions still have to be sent.
    var givesInstructions = true

    /// The frame of the next question, which keeps only the template and the schema.
    var next: MessageFrame {
        MessageFrame(
            schema: schema, template: template, parameters: parameters,
            givesInstructions: givesInstructions && (template == nil || !prompt.isEmpty))
    }

    /// Returns the text after which a thread is named, if the message has more than the question. Without a question, it
    /// is the names of the template and of the files.
    func subject(of question: String) -> String? {
        guard template != nil || !attachments.isEmpty || !prompt.isEmpty else { return nil }
        let names = ([template?.name].compactMap(\.self) + fileNames).joined(separator: " ")
        return question.trimmed.isEmpty ? (names.isEmpty ? nil : names) : question
    }

    /// Returns the messages that ask `question`, and those before it.
    ///
    /// - Throws: ``CommandLineError`` about a template's variables.
    func messages(asking question: String, _ options: ChappieMessageOptions) throws -> [ChappieInputMessage] {
        var (system, text) = (system, question)
        if prompt.isEmpty, let template {
            let filled = try template.filled(with: question, parameters)
            system = system ?? (givesInstructions ? filled.system : nil)
            text = filled.prompt
        }
        var (earlier, parts) = (prompt, attachments)
        if let last = earlier.last, last.role == .user {
            earlier.removeLast()
            parts += last.parts + (text.isEmpty ? [] : [.text("\n\n")])
        }
        if !text.isEmpty { parts.append(.text(text)) }
        // The service does not accept system messages. A developer message has the same effect.
        let messages = (system.map { [.developer($0)] } ?? []) + earlier
        // A prompt may end with a message of the model, which the model continues.
        guard !parts.isEmpty || earlier.isEmpty else { return messages }
        return messages + [ChappieInputMessage(role: .user, parts: parts, options: options)]
    }
}

/// A schema in its short form: `name str, age int: in years, notes`. Each field has a name, a type (str, int, float or
/// bool, default str), and after a colon its meaning. Commas or line ends separate the fields.
struct ShortSchema {
    private static let types = ["str": "string", "int": "integer", "float": "number", "bool": "boolean"]

    let json: ChappieJSON

    /// Returns `nil` for one word, which is a file's name, and for the name of an existing file.
    ///
    /// - Throws: ``CommandLineError`` that names the field.
    init?(_ text: String) throws {
        guard text.contains(where: { $0 == "," || $0.isWhitespace }), !WholeFile.exists(text) else { return nil }
        var properties = ChappieJSONObject()
        // In a text with several lines, the meaning of a field may contain commas.
        let fields = text.contains("\n") ? text.split(separator: "\n") : text.split(separator: ",")
        for field in fields.map({ $0.trimmed }) where !field.isEmpty {
            let parts = field.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            let words = (parts.first ?? "").split(whereSeparator: \.isWhitespace).map(String.init)
            guard let name = words.first, words.count <= 2, properties[name] == nil,
                name.allSatisfy({ $0.isLetter || $0.isNumber || $0 == "_" || $0 == "-" }),
                let type = Self.types[words.count == 2 ? words[1] : "str"]
            else {
                throw CommandLineError.usage(
                    "The schema's field \"\(field.prefix(100))\" can't be used.",
                    suggestion: "Write fields as: name str, age int: in years. Types: str, int, float, bool.")
            }
            var property: ChappieJSONObject = ["type": .string(type)]
            if parts.count == 2 { property["description"] = .string(parts[1].trimmed) }
            properties[name] = .object(property)
        }
        let names = properties.members.map { ChappieJSON.string($0.name) }
        json = [
            "type": "object", "properties": .object(properties), "required": .array(names),
            "additionalProperties": false,
        ]
    }
}
