/// How a program ended, or that it did not.
enum ChildOutcome: Sendable, Hashable {
    /// It ended by itself. `code` is its exit code, or 128 and the number of the signal that ended it; `words` is what
    /// it wrote to its standard error, the first 4096 bytes of it.
    case exited(code: Int32, words: String)
    /// The limit has passed, or the task was cancelled; the program was left alone or killed, as it was asked.
    case stillRunning
    /// It could not be started; the system's own words.
    case notStarted(String)
}
