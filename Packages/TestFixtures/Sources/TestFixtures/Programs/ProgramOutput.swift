/// Where a program's standard output goes.
public enum ProgramOutput: Sendable {
    /// To the test, which reads it: ``RunningProgram/output``.
    case pipe
    /// To the end of this file.
    case file(String)
}
