import ChappieCore

extension CredentialManager {
    /// Waits until no refresh and no revocation is under way, for `limit` at most. Call it before a process ends: a
    /// refresh whose answer nobody stores has used up the refresh token for nothing.
    ///
    /// - Parameter limit: default 75 seconds: what a token endpoint and a store may take. Almost always it is no time at
    ///   all.
    public func settle(within limit: Duration = .seconds(75)) async {
        guard renewing != nil || !revoking.isEmpty else { return }
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.finishWhatIsUnderWay() }
            group.addTask { [clock] in try? await clock.sleep(for: limit) }
            await group.next()
            group.cancelAll()
        }
    }

    private func finishWhatIsUnderWay() async {
        _ = try? await renewing?.value()
        // What a renewal has begun by then is among them.
        for flight in Array(revoking.values) { _ = try? await flight.value() }
    }

    /// Ends a credential at the server without making anybody wait; failing changes nothing here.
    func revokeInBackground(_ credential: Credential) {
        let flight = Flight<Void>()
        lastRevocation += 1
        let id = lastRevocation
        revoking[id] = flight
        Task {
            try? await tokens.revoke(credential)
            revoking[id] = nil
            flight.land(.success(()))
        }
    }
}
