import ChappieSDK

/// An error of the program itself: a sentence, what to do, and how to exit.
struct CommandLineError: Error {
    let code: String
    let message: String
    let suggestion: String?
    let status: ExitStatus

    init(_ status: ExitStatus, code: String, _ message: String, suggestion: String? = nil) {
        self.status = status
        self.code = code
        self.message = message
        self.suggestion = suggestion
    }

    static func usage(_ message: String, suggestion: String? = nil) -> CommandLineError {
        CommandLineError(.usage, code: "usage", message, suggestion: suggestion)
    }
}
