import ChappieAuth
import ChappieCore
import ChappieCredentialsPostgres
import ChappieCrypto
import ChappieSDK
import FoundationEssentials
import Glibc
import Synchronization

/// A machine with a sign-in in a table that other machines share, for tests that run several of it, and stop and kill some.
///
/// `PostgresSignInUser ROLE ADDRESS PORT`, with a role of:
/// - `sign-in`: signs in, and prints `signed in`.
/// - `ask`: prints `ready`, waits for the end of its input, asks one question, and prints `answered` or the error.
/// - `ask-timed`: the same, and prints before it how many milliseconds the renewal took.
/// - `ask-with-long-leases`: the same, with the leases that a service has.
/// - `ask-stopping-before-request`, `ask-stopping-before-save`: the same. It stops like a program that gets SIGSTOP at that
///   moment, once.
/// - `hold`: takes the lock of the credential, prints `holds`, and waits to be killed.
@main
enum PostgresSignInUser {
    static func main() async throws {
        let arguments = CommandLine.arguments
        guard arguments.count == 4, let port = UInt16(arguments[3]),
            let origin = URL(string: "http://127.0.0.1:\(port)")
        else { exit(64) }
        let keys = try ChappieSealingKeys(current: Secret(Array(repeating: 7, count: 32)))
        let leases =
            arguments[1] == "ask-with-long-leases"
            ? LeaseTimes() : LeaseTimes(atFirst: .seconds(2), forRequest: .seconds(6), afterSave: .seconds(1))
        let table = ChappiePostgresCredentialStore(
            try ChappiePostgresDatabase(connectionString: arguments[2]), keys, changesWithin: .milliseconds(200), leases
        )
        let store = StoppingStore(table, at: arguments[1])
        let configuration = ChappieConfiguration(
            keychainService: "com.example.shared",
            endpoints: ChappieEndpoints(issuer: origin, backend: origin.appending(path: "backend-api")))
        if arguments[1] == "hold" {
            let hold = try await store.lock.acquire(configuration.credentialSlot, within: .seconds(10))
            say("holds")
            while true { pause() }
            withExtendedLifetime(hold) {}
        }
        if arguments[1] == "ask-timed" { Chappie.observe(with: RenewalClock()) }
        let session = await Chappie.loadedAuthSession(configuration: configuration, store: .custom(store))
        if arguments[1] == "sign-in" {
            try await session.signIn { _ in }
            return say("signed in")
        }
        let client = Chappie.client(
            configuration: configuration, store: .custom(store), streamingTransportPolicy: .httpSSEOnly)
        say("ready")
        var byte: UInt8 = 0
        while read(0, &byte, 1) > 0 {}
        do {
            _ = try await client.send("reply: here")
            say("answered")
        } catch {
            say("\(error)")
        }
        await session.finishPendingWork()
    }

    static func say(_ line: String) {
        let bytes = Array((line + "\n").utf8)
        if write(1, bytes, bytes.count) != bytes.count { exit(74) }
    }
}

/// Prints how long renewals take.
private struct RenewalClock: ChappieObserver {
    func began(_ operation: ChappieOperation, in parent: (any ChappieObservation)?) -> (any ChappieObservation)? {
        guard case .renewal = operation else { return nil }
        return Renewal()
    }

    func happened(_ fact: ChappieFact) {}

    private struct Renewal: ChappieObservation {
        private let begin = ContinuousClock.now

        func learned(_ detail: ChappieOperationDetail) {}

        func ended(_ error: (any Error)?) {
            PostgresSignInUser.say("\((ContinuousClock.now - begin) / .milliseconds(1))")
        }
    }
}

/// The table, in a program that stops at a chosen moment.
private final class StoppingStore: SharedCredentialStore {
    private let table: ChappiePostgresCredentialStore
    private let role: String
    private let hasStopped = Atomic(false)

    var lock: any CredentialLock { table.lock }
    var notes: any CredentialNotes { table.notes }

    init(_ table: ChappiePostgresCredentialStore, at role: String) {
        self.table = table
        self.role = role
    }

    private func stop(before moment: String) {
        guard role == "ask-stopping-before-\(moment)", !hasStopped.exchange(true, ordering: .relaxed) else { return }
        PostgresSignInUser.say("stops")
        raise(SIGSTOP)
    }

    func load(_ slot: CredentialSlot) async throws(CredentialStoreError) -> Secret? { try await table.load(slot) }

    func prepareToSave(in slot: CredentialSlot) async throws(CredentialStoreError) {
        stop(before: "request")
        try await table.prepareToSave(in: slot)
    }

    func save(_ secret: Secret, in slot: CredentialSlot) async throws(CredentialStoreError) {
        stop(before: "save")
        try await table.save(secret, in: slot)
    }

    func delete(_ slot: CredentialSlot) async throws(CredentialStoreError) { try await table.delete(slot) }
}
