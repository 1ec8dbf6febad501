import ArgumentParser
@_spi(ChappieInternals) import ChappieCore
import ChappieSDK
import FoundationEssentials

/// The command `chappie draw`, which makes a picture or changes some.
struct Draw: ProgramCommand {
    var settingsUse: SettingsUse { .network }
    var accessTokenUse: AccessTokenUse { .signsIn }
    static let configuration = CommandConfiguration(
        commandName: "draw",
        abstract: "Make a picture, or change pictures, and save it.",
        discussion: """
            The arguments are the prompt. If standard input is redirected, its text is added below them, as in chappie \
            ask. The picture is saved in the current folder, under a name made from the prompt, and the path is printed. \
            No file is replaced without --force. A terminal with the protocol of kitty or iTerm2 shows the picture; so \
            does any other one if the program chafa is installed.

              chappie draw "A red fox in the snow"
              chappie draw -o logo.png --transparent "A logo: a paper boat"
              chappie draw -i photo.jpg "Make the sky red"

            A picture takes from half a minute to four minutes, and counts towards your plan's limits even if you stop \
            it. Size and quality are wishes; the service may choose others. The extension of a name made from the \
            prompt is that of the picture's format.

            With --json: {"path":…, "media_type":…, "width":…, "height":…, "bytes":…, "usage":{…}}.
            """)

    @OptionGroup var options: GlobalOptions

    @Option(
        name: .shortAndLong,
        help: ArgumentHelp("Write the picture into this file; - is standard output.", valueName: "file"),
        completion: .file())
    var output: String?

    @Flag(help: "Replace the file of -o if it exists.")
    var force = false

    @Option(
        name: .shortAndLong,
        help: ArgumentHelp(
            "A picture to change: PNG, JPEG or WebP, a file, or - for standard input (repeatable, up to five).",
            valueName: "file"),
        completion: .file())
    var image: [String] = []

    @Option(
        help: ArgumentHelp("auto, or WIDTHxHEIGHT in pixels, such as 1024x1536.", valueName: "size"),
        completion: .list(["auto", "1024x1024", "1024x1536", "1536x1024"]))
    var size = "auto"

    @Option(help: "low, medium, high or auto.")
    var quality = PictureQuality.auto

    @Flag(help: "Make the background transparent.")
    var transparent = false

    @Option(name: .shortAndLong, help: "The model for pictures.")
    var model = ChappieImageRequest.defaultModel

    @Argument(help: "What the picture shows, or what to change; - reads standard input.")
    var words: [String] = []

    func validate() throws {
        guard image.count <= ChappieImageRequest.imageLimit else {
            throw ValidationError("-i takes up to \(ChappieImageRequest.imageLimit) pictures.")
        }
        guard image.count(where: { $0 == "-" }) < 2 else {
            throw ValidationError("Standard input can be a picture only once.")
        }
        guard size == "auto" || size.wholeMatch(of: /[1-9][0-9]{0,4}x[1-9][0-9]{0,4}/) != nil else {
            throw ValidationError("--size takes auto, or WIDTHxHEIGHT such as 1024x1536.")
        }
        if options.json, output == "-" { throw ValidationError("-o - and --json both write to standard output.") }
    }

    func run(in program: Program) async throws {
        let console = program.console
        let store = program.environment.threadsFolder
        // Everything that can fail on this machine fails before the picture is paid for.
        if output == "-", console.terminals.output {
            throw CommandLineError.usage(
                "A terminal can't take the bytes of a picture.", suggestion: "Redirect them, or name a file with -o.")
        }
        let target = try output.flatMap { $0 == "-" ? nil : try OutputFile($0, outside: store, replaces: force) }
        if output == nil { try PictureFile.checkFolder() }
        var pictures: [ChappieImage] = []
        for name in image {
            if case .image(let picture) = try await Attachment.image(name) { pictures.append(picture) }
        }
        let prompt = try await Ask.question(
            words, image.contains("-") ? nil : StandardInput(), console, mayBeEmpty: true)
        guard !prompt.isEmpty else {
            throw CommandLineError.usage(
                "There is nothing to draw.", suggestion: "Describe the picture: chappie draw \"A red fox\"")
        }
        let client = try program.client()
        let request = ChappieImageRequest(
            prompt, model: model, size: size, quality: quality.value, background: transparent ? .transparent : .opaque)
        let picture = try await WaitingStatus.showing("Drawing…", on: console) {
            pictures.isEmpty
                ? try await client.generateImage(request) : try await client.editImage(request, images: pictures)
        }
        if output == "-" { return console.write(picture.bytes) }
        let path = try await Self.save(picture, in: target, prompt, outside: store)
        guard !options.json else { return console.json(picture.json(path: path)) }
        await TerminalPicture.show(picture, at: path, on: console, program.environment)
        console.write(path + "\n")
        if console.terminals.error { console.note("chappie: \(picture.description)") }
    }

    /// Saves the picture in the file that the user named, or in one named after the prompt.
    private static func save(
        _ picture: ChappieGeneratedImage, in target: OutputFile?, _ prompt: String, outside store: ThreadsFolder
    ) async throws -> String {
        let saveByPrompt = { try PictureFile.save(picture, as: PictureFile.stem(for: prompt), outside: store) }
        guard let target else { return try saveByPrompt() }
        do {
            try await target.write(picture.bytes)
            return target.path
        } catch let error as CommandLineError {
            // The picture was paid for.
            guard let path = try? saveByPrompt() else { throw error }
            throw CommandLineError(
                error.status, code: error.code, error.message, suggestion: "The picture is in \(path).")
        }
    }
}

/// The quality of a picture, which is a wish.
enum PictureQuality: String, ExpressibleByArgument, CaseIterable {
    case low, medium, high, auto

    var value: ChappieImageRequest.Quality { ChappieImageRequest.Quality(rawValue: rawValue) }
}
