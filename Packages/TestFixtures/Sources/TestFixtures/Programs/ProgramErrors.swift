/// Where a program's standard error goes.
public enum ProgramErrors: Sendable {
    /// To where its output goes.
    case withOutput
    /// To the end of this file.
    case file(String)
    /// To where the test's own goes.
    case inherited
}
