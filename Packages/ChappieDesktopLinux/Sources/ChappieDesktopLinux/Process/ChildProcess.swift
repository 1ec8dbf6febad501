/// A program to run, as a value.
struct ChildProcess: Sendable, Hashable {
    /// What happens to a program that is still running at the limit.
    enum AtLimit: Sendable, Hashable {
        /// It goes on, on its own: a browser that stays in the foreground.
        case leave
        /// It is killed, and whatever it has started in its process group.
        case kill
    }

    /// Where the program is; the first argument as well.
    let path: String
    /// What follows the program's name. Every process of the machine can read this: nothing that a person copies.
    let arguments: [String]
    let environment: [String: String]
    /// What it reads from its standard input; `nil` is /dev/null.
    var input: [UInt8]?
    let limit: Duration
    let atLimit: AtLimit
}
