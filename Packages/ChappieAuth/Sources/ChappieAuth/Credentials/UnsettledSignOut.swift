import ChappieCore
import FoundationEssentials

/// A sign-out that the store did not carry out when it was asked to.
struct UnsettledSignOut: Sendable {
    let epoch: Int
    /// When it was, by the wall clock.
    let at: Date
    /// Who was signed out; empty when the store could not be read either.
    let accounts: [ChappieAccountInfo]

    /// Whether `stored` is what the person wanted gone, and not a sign-in that came later.
    func means(_ stored: Credential) -> Bool {
        guard accounts.isEmpty else { return accounts.contains { $0.isSameAccount(as: stored.info) } }
        return stored.lastRefresh.map { $0 <= at } ?? true
    }
}
