import ChappieAuth

extension SecretServiceSession {
    /// Runs a step in which the service may ask the person whether it may; where asking is allowed it has at least the
    /// prompt's limit.
    func mayPrompt(_ body: () throws(CredentialStoreError) -> Void) throws(CredentialStoreError) {
        guard let limit = limits.prompt, limit > limits.work else { return try body() }
        turn.allow(limit)
        try body()
        turn.allow(limits.work)
    }

    /// Runs the prompt whose path a method has answered with, if there is one.
    ///
    /// - Throws: `denied` when the person dismissed it, `absent` when the service went away meanwhile.
    func run(promptIn answer: BusValue?) throws(CredentialStoreError) {
        guard let path = answer?.text else {
            throw .failed("the keyring service's answer is not what its protocol says")
        }
        // The path that stands for no prompt.
        guard path != "/" else { return }
        let outcome = try working { () throws(LibraryFault) in
            try KeyringPrompt(connection: connection, cancellation: cancellation, path: path).run()
        }
        switch outcome {
        case .accepted: return
        case .dismissed: throw .denied("the prompt was dismissed")
        case .vanished: throw .absent("the keyring service went away while it asked the person")
        }
    }
}
