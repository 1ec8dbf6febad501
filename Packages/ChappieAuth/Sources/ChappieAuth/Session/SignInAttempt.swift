/// One try to sign in.
struct SignInAttempt {
    let id: Int
    /// The manager's epoch when it began; a sign-out since then ends it.
    let epoch: Int
    /// The code to show, for whoever started the attempt.
    let code = Flight<ChappieDeviceCode>()
}

extension SignInAttempt: Sendable {}
