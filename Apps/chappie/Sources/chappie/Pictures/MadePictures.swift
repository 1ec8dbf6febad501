@_spi(ChappieInternals) import ChappieCore
import ChappieSDK

/// The pictures that a model makes during an answer. Each one is saved in the current folder and shown on a terminal
/// that can show it.
struct MadePictures {
    let program: Program

    /// Saves the pictures of a tool's result. Pictures of other tools, such as screenshots, are not saved.
    func save(_ result: ChappieToolExecutionResult) async {
        for case .image(let prompt) in result.steps {
            for picture in result.result.images { await save(picture, prompt) }
        }
    }

    private func save(_ picture: ChappieGeneratedImage, _ prompt: String) async {
        let console = program.console
        do {
            let path = try PictureFile.save(
                picture, as: PictureFile.stem(for: prompt), outside: program.environment.threadsFolder)
            if program.options.json {
                guard var object = picture.json(path: path).object else { return }
                object["type"] = "picture"
                return console.json(.object(object))
            }
            await TerminalPicture.show(picture, at: path, on: console, program.environment)
            console.note("The picture is in \(path) (\(picture.description)).")
        } catch {
            // The answer continues, and the conversation keeps the picture.
            let problem = CommandLineError(error)
            console.note("chappie: \(problem.message)", isError: true)
            if let suggestion = problem.suggestion { console.note("         \(suggestion)", isError: true) }
        }
    }
}
