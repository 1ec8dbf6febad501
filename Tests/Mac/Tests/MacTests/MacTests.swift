// The adapters of Apple's platforms against the contracts of their ports, on the system itself. No Mac has run this.
import ChappieAuth
import ChappieCore
import ChappieCrypto
@_spi(ChappieInternals) import ChappieFiles
import ChappieKeychainApple
import ChappieSDKTesting
import ChappieThreadsSQLite
import ChappieURLSession
import ChappieWebSocket
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

    #if canImport(Network)
        @Test(arguments: WebSocketTransportContract.cases)
        func networkKeepsTheContractOfWebSockets(_ demand: WebSocketTransportContract.Case) async throws {
            let server = try WebSocketTransportContract.startServer()
            defer { server.stop() }
            let streams = NetworkByteStreamTransport(policy: ChappieNetworkPolicy(proxy: .none))
            let transport = StreamWebSocketTransport(over: streams)
            try await demand.run(transport, at: WebSocketTransportContract.baseURL(of: server))
        }

        /// The state of such a connection is `waiting`, and it stays so.
        @Test(.timeLimit(.minutes(1))) func aPortWithoutAServerFailsAtOnce() async throws {
            let error = await #expect(throws: ChappieTransportError.self) {
                try await NetworkByteStreamTransport().connect(host: "127.0.0.1", port: 1, isSecure: false)
            }
            #expect(error?.code == .connectFailed)
        }

        /// The port of a TLS server at localhost whose certificate is for that name alone, and the file of its authority:
        ///
        ///     openssl req -x509 -newkey rsa:2048 -nodes -days 30 -keyout ca.key -out ca.pem -subj "/CN=Chappie test"
        ///     openssl req -newkey rsa:2048 -nodes -keyout key.pem -out request.pem -subj /CN=localhost
        ///     printf 'subjectAltName=DNS:localhost\nextendedKeyUsage=serverAuth\n' > extensions
        ///     openssl x509 -req -in request.pem -CA ca.pem -CAkey ca.key -CAcreateserial -days 30 \
        ///         -extfile extensions -out cert.pem
        ///     openssl s_server -accept 8443 -cert cert.pem -key key.pem -www
        private static let securePort = ProcessInfo.processInfo.environment["CHAPPIE_TEST_TLS_PORT"].flatMap(Int.init)
        private static let authority = ProcessInfo.processInfo.environment["CHAPPIE_TEST_CA"]

        @Test(.enabled(if: Self.securePort != nil, "CHAPPIE_TEST_TLS_PORT names no server."), .timeLimit(.minutes(1)))
        func networkTrustsAnExtraAuthorityForItsHosts() async throws {
            func connect(to host: String, trusting file: String?) async throws {
                let policy = ChappieNetworkPolicy(proxy: .none, extraCAFile: file)
                try await NetworkByteStreamTransport(policy: policy)
                    .connect(host: host, port: #require(Self.securePort), isSecure: true).close()
            }
            try await connect(to: "localhost", trusting: Self.authority)
            for (host, file) in [("localhost", nil), ("127.0.0.1", Self.authority)] {
                let error = await #expect(throws: ChappieTransportError.self) {
                    try await connect(to: host, trusting: file)
                }
                #expect(error?.code == .certificateRejected, "\(host)")
            }
        }
    #endif

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
