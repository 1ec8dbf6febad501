import ChappieCore

extension CredentialManager {
    /// Waits until no refresh and no revocation is under way, for `limit` at most. Call it before a process ends: a
    /// refresh whose answer nobody stores has used up the refresh token for nothing.
    public func settle(within limit: Duration = .seconds(10)) async {
        let renewing = renewing
        let revoking = Array(revoking.values)
        guard renewing != nil || !revoking.isEmpty else { return }
        await withTaskGroup(of: Void.self) { group in
            group.addTask {
                _ = try? await renewing?.value()
                for flight in revoking { _ = try? await flight.value() }
            }
            group.addTask { [clock] in try? await clock.sleep(for: limit) }
            await group.next()
            group.cancelAll()
        }
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
