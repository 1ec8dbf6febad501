// The adapters of Apple's platforms against the contracts of their ports, on the system itself. No Mac has run this.
import ChappieAuth
import ChappieCore
import ChappieCrypto
@_spi(ChappieInternals) import ChappieFiles
import ChappieKeychainApple
import ChappieSDKTesting
import ChappieThreadsSQLite
import ChappieURLSession
import Foundation
import Testing

@Suite(.serialized) final class MacTests {
    /// A folder for one test, which does not exist yet.
    private let folder = FileManager.default.temporaryDirectory.appending(path: "chappie-\(UUID().uuidString)").path

    deinit { try? FileManager.default.removeItem(atPath: folder) }

    @Test(arguments: HTTPTransportContract.cases)
    func urlSessionKeepsTheContract(_ demand: HTTPTransportContract.Case) async throws {
        let server = try await HTTPTransportContract.startServer()
        let transport = URLSessionHTTPTransport(policy: ChappieNetworkPolicy(proxy: .none))
        try await demand.run(transport, at: HTTPTransportContract.baseURL(of: server))
        await server.stop()
    }

    @Test(arguments: SignInCryptographyContract.cases)
    func securityKeepsTheContract(_ demand: SignInCryptographyContract.Case) throws {
        try demand.run(SystemSignInCryptography())
    }

    @Test(arguments: CredentialStoreContract.cases)
    func encryptedFilesKeepTheContract(_ demand: CredentialStoreContract.Case) async throws {
        let passphrase = FixedPassphrase(Secret("correct horse"))
        try await demand.run(EncryptedFileCredentialStore(directory: folder, passphrase: passphrase))
    }

    @Test(arguments: ThreadStoreContract.cases)
    func threadsInFilesKeepTheContract(_ demand: ThreadStoreContract.Case) async throws {
        try await demand.run(ChappieFileThreadStore(directory: folder, keys: InMemoryCredentialStore()))
    }

    @Test func `threads use the write-ahead log of SQLite on a disk of this machine`() async throws {
        try await ThreadStoreContract.cases[0].run(
            ChappieFileThreadStore(directory: folder, keys: InMemoryCredentialStore()))
        let head = try Data(contentsOf: URL(filePath: folder + "/threads.db")).prefix(20)
        // The file format's write and read version are 2 for a write-ahead log (https://www.sqlite.org/fileformat2.html).
        #expect(Array(head.suffix(2)) == [2, 2])
    }

    @Test(arguments: RegistrationStoreContract.cases)
    func registrationsInAFileKeepTheContract(_ demand: RegistrationStoreContract.Case) async throws {
        try await demand.run(FileRegistrationStore(directory: folder))
    }

    #if canImport(Security)
        /// The data protection keychain is for programs that are signed with an application identifier: the script says
        /// how.
        private static let accessGroup = ProcessInfo.processInfo.environment["CHAPPIE_TEST_ACCESS_GROUP"]

        @Test(
            .enabled(if: MacTests.accessGroup != nil, "CHAPPIE_TEST_ACCESS_GROUP names no access group."),
            arguments: CredentialStoreContract.cases)
        func theKeychainKeepsTheContract(_ demand: CredentialStoreContract.Case) async throws {
            try await demand.run(KeychainCredentialStore())
        }
    #endif
}
