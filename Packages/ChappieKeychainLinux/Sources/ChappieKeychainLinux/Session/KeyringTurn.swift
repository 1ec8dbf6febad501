/// What a call's work is given when its turn has come.
struct KeyringTurn {
    /// Ends the library's blocking calls once nobody waits for the outcome any more.
    let cancellation: Cancellation
    /// Gives the call another limit, from now on: what waits for a person takes longer than what waits for a program.
    let allow: (Duration) -> Void
}
