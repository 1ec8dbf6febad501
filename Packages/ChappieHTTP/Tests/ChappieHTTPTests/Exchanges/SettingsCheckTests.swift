import ChappieCore
import ChappieHTTP
import Foundation
import Testing

/// What `check` refuses before anything is sent.
@Suite struct SettingsCheckTests {
    private func failure(_ address: String, _ policy: ChappieNetworkPolicy) throws -> ChappieTransportError? {
        let url = try #require(URL(string: address))
        let transport = CurlHTTPTransport(policy: policy)
        defer { transport.shutdown() }
        do throws(ChappieTransportError) { try transport.check(url) } catch { return error }
        return nil
    }

    @Test func aGoodAddressPassesThoughNothingListens() throws {
        #expect(try failure("http://127.0.0.1:1/", ChappieNetworkPolicy(proxy: .none)) == nil)
        #expect(try failure("https://host.invalid/", ChappieNetworkPolicy(proxy: .none)) == nil)
    }

    @Test func plainHTTPToAnotherMachineIsRefused() throws {
        let error = try failure("http://host.invalid/", ChappieNetworkPolicy(proxy: .none))
        #expect(error?.code == .insecureURL)
        #expect(error?.stage == .configuration)
    }

    @Test func aFileWithoutCertificatesIsNamed() throws {
        let path = NSTemporaryDirectory() + "chappie-\(UUID().uuidString).pem"
        try Data("no certificate".utf8).write(to: URL(fileURLWithPath: path))
        defer { try? FileManager.default.removeItem(atPath: path) }
        let error = try failure("https://host.invalid/", ChappieNetworkPolicy(proxy: .none, extraCAFile: path))
        #expect(error?.code == .invalidCAFile)
        #expect(error?.reason.contains(path) == true)
    }
}
