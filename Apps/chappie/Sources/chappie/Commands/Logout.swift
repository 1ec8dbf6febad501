import ArgumentParser
import ChappieSDK

/// `chappie logout`: forgets the credential here and revokes it there.
struct Logout: ProgramCommand {
    static let configuration = CommandConfiguration(
        abstract: "Sign out: delete the credential and revoke it at the service.",
        discussion: """
            A credential that can't be read is deleted all the same; the service is then not told.

            With --json: {"signed_out":true,"revoked":true|false,"was_signed_in":true|false|null}, null where the \
            credential could not be read.
            """)

    @OptionGroup var options: GlobalOptions

    func run(in program: Program) async throws {
        let session = try await program.session()
        guard await session.lastStoreError == nil else { return try await discard(program) }
        let wasSignedIn = await session.accountInfo != nil
        var failure: (any Error)?
        if wasSignedIn {
            do { try await session.signOutAndRevoke() } catch { failure = error }
        } else {
            try await program.credentials.signOut()
        }
        if let failure, failure is CredentialStoreError { throw failure }
        if options.json {
            return Output.json([
                "signed_out": true, "revoked": .bool(wasSignedIn && failure == nil),
                "was_signed_in": .bool(wasSignedIn),
            ])
        }
        Output.line(wasSignedIn ? "Signed out." : "Nobody was signed in.")
        if let failure {
            let report = ErrorReport(failure)
            Output.note(
                "chappie: the credential is deleted here, but revoking it at the service failed: \(report.message)")
        }
    }

    /// What can't be read may still be there: deleting is what was asked for.
    private func discard(_ program: Program) async throws {
        try await program.credentials.signOut()
        if options.json {
            return Output.json(["signed_out": true, "revoked": false, "was_signed_in": .null])
        }
        Output.line("The stored credential was removed; it could not be read, so the service was not told.")
    }
}
