import ChappieAuth
import ChappieCore
import ChappieSDK
import FoundationEssentials
import Glibc

/// A machine with a sign-in in a table that other machines share, for tests that run several of it and kill some.
///
/// `SharedStoreUser ask FOLDER PORT`: prints `ready`, waits for the end of its input, asks one question, and prints
/// `answered` or the error. `SharedStoreUser sign-in FOLDER PORT`: signs in, and prints `signed in`. `SharedStoreUser
/// hold FOLDER PORT`: takes the lock of the credential, prints `holds`, and waits to be killed.
@main
enum SharedStoreUser {
    static func main() async throws {
        let arguments = CommandLine.arguments
        guard arguments.count == 4, let port = UInt16(arguments[3]),
            let origin = URL(string: "http://127.0.0.1:\(port)")
        else { exit(64) }
        let store = LeaseTable(folder: arguments[2], lease: 2, leaseOfRequest: 6)
        let configuration = ChappieConfiguration(
            keychainService: "com.example.shared",
            endpoints: ChappieEndpoints(issuer: origin, backend: origin.appending(path: "backend-api")))
        if arguments[1] == "hold" {
            let hold = try await store.acquire(configuration.credentialSlot, within: .seconds(10))
            say("holds")
            while true { pause() }
            withExtendedLifetime(hold) {}
        }
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

    private static func say(_ line: String) {
        let bytes = Array((line + "\n").utf8)
        if write(1, bytes, bytes.count) != bytes.count { exit(74) }
    }
}
