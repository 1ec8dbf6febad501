/// Ends the program with a status when everything there is to say has been said.
struct SilentExit: Error {
    let status: ExitStatus

    init(_ status: ExitStatus) { self.status = status }
}
