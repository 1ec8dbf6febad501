// The adapters of Apple's platforms against the contracts of their ports, on the system itself. No Mac has run this.
import ChappieAuth
import ChappieCore
import ChappieCrypto
import ChappieKeychainApple
import ChappieTesting
import ChappieURLSession
import Foundation
import Testing

@Suite(.serialized) struct MacTests {
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

    #if canImport(Security)
        /// The data protection keychain is for programs that are signed with an application identifier: the script says
        /// how.
        private static let accessGroup = ProcessInfo.processInfo.environment["CHAPPIE_TEST_ACCESS_GROUP"]

        @Test(
            .enabled(if: Self.accessGroup != nil, "CHAPPIE_TEST_ACCESS_GROUP names no access group."),
            arguments: CredentialStoreContract.cases)
        func theKeychainKeepsTheContract(_ demand: CredentialStoreContract.Case) async throws {
            try await demand.run(KeychainCredentialStore())
        }
    #endif
}
