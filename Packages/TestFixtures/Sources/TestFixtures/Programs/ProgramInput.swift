/// What a program reads from its standard input.
public enum ProgramInput: Sendable {
    /// The end, at once.
    case nothing
    /// This file.
    case file(String)
    /// This text, and then the end. At most 64 KiB, which is what a pipe holds.
    case text(String)
    /// Nothing, and the end when the test says so: ``RunningProgram/endInput()``.
    case held
}
