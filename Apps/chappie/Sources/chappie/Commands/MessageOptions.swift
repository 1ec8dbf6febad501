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
            "The form of the answer: a file with a JSON Schema, the schema itself, or \"name str, age int: in years, tags str[]\". Another answer is an error (65).",
            valueName: "schema"),
        completion: .file())
    var schema: String?

    @Option(
        help: ArgumentHelp(
            "Like --schema, for several: the answer is {\"items\": […]} with a list of values of this form.",
            valueName: "schema"),
        completion: .file())
    var schemaMulti: String?

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
        try answer.fill(from: template, program.settings, goesOn: goesOn)
        _ = try program.tools(of: answer)
        let offers = program.startedTools.offers
        guard schema == nil || schemaMulti == nil else {
            throw CommandLineError.usage(
                "--schema and --schema-multi both give the form of the answer.", suggestion: "Leave one out.")
        }
        let schema = try schema.map { try Self.schema($0) } ?? schemaMulti.map { try Self.schema($0, ofList: true) }
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
    ///
    /// - Parameter ofList: whether the schema is that of the elements of a list.
    static func schema(_ argument: String, ofList: Bool = false) throws -> ChappieJSONSchema {
        let isInline = argument.first == "{"
        let short = isInline ? nil : try ShortSchema(argument)
        do {
            let bytes =
                short != nil || isInline ? Array(argument.utf8) : UserFile.unmarked(try WholeFile.read(argument))
            let json = try short?.json ?? SchemaDocument.schema(in: ChappieJSON(parsing: bytes))
            let schema = ChappieJSONSchema(ofList ? SchemaDocument.list(of: json) : json)
            _ = try ChappieStrictSchema(schema)
            return schema
        } catch let error as CommandLineError {
            throw error
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
