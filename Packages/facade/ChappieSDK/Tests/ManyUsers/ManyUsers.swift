import ChappieAuth
import ChappieClient
import ChappieCore
import ChappieSDK
import FoundationEssentials
import Glibc

/// A server with many users, for tests that look at its threads, its memory and its open files.
///
/// `ManyUsers busy FOLDER PORT COUNT`: signs in so many users, lets all of them ask at once, and prints the largest
/// number of threads. `ManyUsers leaving FOLDER PORT COUNT`: signs in so many users in each of several rounds, releases
/// them, and prints the bytes in use after each round. `ManyUsers crowd FOLDER PORT COUNT`: signs in so many users at
/// once, and prints each different error.
@main
enum ManyUsers {
    static func main() async throws {
        let arguments = CommandLine.arguments
        guard arguments.count == 5, let port = UInt16(arguments[3]), let count = Int(arguments[4]),
            let origin = URL(string: "http://127.0.0.1:\(port)")
        else { exit(64) }
        let server = Server(
            store: .custom(UserFiles(folder: arguments[2])),
            endpoints: ChappieEndpoints(issuer: origin, backend: origin.appending(path: "backend-api")))
        switch arguments[1] {
        case "busy": say("\(try await server.threads(ofBusyUsers: count))")
        case "leaving":
            for round in 0..<6 {
                for user in 0..<count { try await server.visit(by: "user-\(round)-\(user)") }
                say("\(bytesInUse())")
            }
        case "crowd": for error in await server.errors(ofUsers: count) { say(error) }
        default: exit(64)
        }
    }

    private static func say(_ line: String) {
        let bytes = Array((line + "\n").utf8)
        if write(1, bytes, bytes.count) != bytes.count { exit(74) }
    }

    /// Returns the number of bytes that are allocated on the heap.
    private static func bytesInUse() -> Int {
        var text: UnsafeMutablePointer<CChar>?
        var size = 0
        guard let stream = open_memstream(&text, &size), mallocInfo(0, stream) == 0 else { exit(70) }
        fclose(stream)
        defer { free(text) }
        // The totals of all arenas follow the arenas.
        let totals = text.map { String(cString: $0) }?.components(separatedBy: "</heap>").last ?? ""
        func total(_ type: String) -> Int {
            let attributes = totals.components(separatedBy: "type=\"\(type)\"").dropFirst().first ?? ""
            return Int(attributes.components(separatedBy: "size=\"")[1].prefix { $0 != "\"" }) ?? 0
        }
        return total("current") + total("mmap") - total("fast") - total("rest")
    }
}

/// malloc_info(3), which Swift's module of the C library lacks.
@_silgen_name("malloc_info") private func mallocInfo(_ options: CInt, _ stream: UnsafeMutablePointer<FILE>) -> CInt

private struct Server: Sendable {
    let store: ChappieCredentialStorage
    let endpoints: ChappieEndpoints

    private func configuration(of user: String) -> ChappieConfiguration {
        ChappieConfiguration(keychainService: "com.example.server", keychainAccount: user, endpoints: endpoints)
    }

    private func client(of user: String) -> ChappieClient {
        Chappie.client(configuration: configuration(of: user), store: store, streamingTransportPolicy: .httpSSEOnly)
    }

    private func signIn(_ user: String) async throws {
        try await Chappie.loadedAuthSession(configuration: configuration(of: user), store: store).signIn { _ in }
    }

    /// Signs a user in, asks a question, and releases everything.
    func visit(by user: String) async throws {
        try await signIn(user)
        _ = try await client(of: user).send("reply: here")
    }

    /// Lets so many users ask at once, and returns the largest number of threads after an answer.
    func threads(ofBusyUsers count: Int) async throws -> Int {
        let users = (0..<count).map { "user-\($0)" }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for user in users { group.addTask { try await signIn(user) } }
            try await group.waitForAll()
        }
        return try await withThrowingTaskGroup(of: Int.self) { group in
            for user in users {
                group.addTask {
                    let client = client(of: user)
                    var threads = 0
                    for _ in 0..<3 {
                        _ = try await client.send("reply: here")
                        threads = max(
                            threads, try FileManager.default.contentsOfDirectory(atPath: "/proc/self/task").count)
                    }
                    return threads
                }
            }
            return try await group.reduce(0, max)
        }
    }

    /// Lets so many users sign in at once, and returns the different errors.
    func errors(ofUsers count: Int) async -> Set<String> {
        await withTaskGroup(of: String?.self) { group in
            for user in 0..<count {
                group.addTask {
                    do {
                        try await signIn("user-\(user)")
                        return nil
                    } catch let error as any LocalizedError {
                        return "\(error.errorDescription ?? "") \(error.recoverySuggestion ?? "")"
                    } catch {
                        return "\(error)"
                    }
                }
            }
            return await group.reduce(into: []) { errors, error in if let error { errors.insert(error) } }
        }
    }
}

/// A store with a file for each user, which has no lock of its own.
private struct UserFiles: CredentialStore, Hashable {
    let folder: String

    private func file(_ slot: CredentialSlot) -> URL { URL(filePath: "\(folder)/\(slot.account)") }

    func load(_ slot: CredentialSlot) throws(CredentialStoreError) -> Secret? {
        guard let descriptor = try? Data(contentsOf: file(slot)) else { return nil }
        return Secret(Array(descriptor))
    }

    func save(_ secret: Secret, in slot: CredentialSlot) throws(CredentialStoreError) {
        do {
            try secret.withBytes { Data($0) }.write(to: file(slot))
        } catch {
            throw .failed("it can't be written")
        }
    }

    func delete(_ slot: CredentialSlot) throws(CredentialStoreError) {
        try? FileManager.default.removeItem(at: file(slot))
    }
}
