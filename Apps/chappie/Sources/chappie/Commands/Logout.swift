import ArgumentParser
@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import ChappieCrypto
import ChappieSDK
import FoundationEssentials

struct Logout: ProgramCommand {
    var accessTokenUse: AccessTokenUse { .refused }
    static let configuration = CommandConfiguration(
        commandName: "logout",
        abstract: "Sign out: delete the credential and revoke it at the service.",
        discussion: """
            The service may also end your sign-ins in other programs that use the same sign-in client, and on other \
            machines. --local forgets the sign-in here and leaves it valid at the service.

            A credential that can't be read is deleted as well, but it can't be revoked at the service.

            With --json: {"signed_out":true,"revoked":true|false,"was_signed_in":true|false|null}, null if the \
            credential could not be read.
            """)

    @OptionGroup var options: GlobalOptions

    @Flag(help: "Forget the sign-in here only, without revoking it at the service.")
    var local = false

    func run(in program: Program) async throws {
        let outcome = try await SignedOut(program, isLocal: local)
        program.say(
            [
                "signed_out": true, "revoked": .bool(outcome.isRevoked),
                "was_signed_in": outcome.wasReadable ? .bool(outcome.wasSignedIn) : .null,
            ],
            outcome.wasReadable
                ? outcome.wasAccessToken
                    ? "Signed out: \(SignedOut.accessTokenSentence)."
                    : outcome.wasSignedIn ? "Signed out." : "You were not signed in."
                : "The stored credential was removed. It could not be read, so it was not revoked at the service.")
        outcome.note(program)
    }
}

/// The outcome of a sign-out in which the credential was deleted.
struct SignedOut {
    /// Whether the credential could be read before.
    let wasReadable: Bool
    let wasSignedIn: Bool
    /// Whether it was a sign-in with an access token, which is not revoked because its owner may use it elsewhere.
    let wasAccessToken: Bool
    /// The error of the service or the network because of which the credential was not revoked.
    private(set) var revocationFailure: (any Error)?
    /// Whether the sign-in was only forgotten here.
    let isLocal: Bool

    var isRevoked: Bool { wasReadable && wasSignedIn && !wasAccessToken && !isLocal && revocationFailure == nil }

    /// Signs out. A credential that cannot be read may still exist, and is deleted because the user requested it.
    ///
    /// - Throws: the store's error if the credential could not be deleted.
    @MainActor
    init(_ program: Program, _ session: ChappieAuthSession? = nil, isLocal: Bool) async throws {
        defer { EncryptedFileCredentialStore.dropKeptKeys() }
        let session = if let session { session } else { try await program.session() }
        wasReadable = session.lastStoreError == nil
        // A sign-in that has ended is still stored.
        wasSignedIn = session.accountInfo != nil || session.state == .reauthenticationRequired
        wasAccessToken = session.grant == .accessToken
        self.isLocal = isLocal
        if isLocal {
            try await program.credentials.forgetWithoutRevoking()
            return
        }
        do {
            try await session.signOutAndRevoke()
        } catch {
            if let storeError = session.lastStoreError {
                let error = CommandLineError(storeError)
                throw CommandLineError(
                    error.status, code: error.code,
                    error.message + " You will be signed out as soon as the credential can be reached.",
                    suggestion: error.suggestion)
            }
            revocationFailure = error
        }
    }

    /// Prints what the sign-out means elsewhere.
    func note(_ program: Program) {
        guard !program.options.json else { return }
        if let revocationFailure {
            program.console.note(Self.sentence(about: revocationFailure))
        } else if isLocal, wasSignedIn, !wasAccessToken {
            program.console.note("chappie: the sign-in is forgotten here and stays valid at the service")
        } else if isRevoked, program.settings.route == .device {
            program.console.note(
                "chappie: the service may have ended your sign-ins in other programs that use the same sign-in client, "
                    + "such as the Codex CLI; --local forgets a sign-in only here")
        }
    }

    static let accessTokenSentence = "the access token is not revoked, which its owner can do in ChatGPT"

    static func sentence(about failure: any Error) -> String {
        "chappie: the credential is deleted here, but revoking it at the service failed: "
            + CommandLineError(failure).message
    }
}
