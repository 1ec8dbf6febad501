@_spi(ChappieInternals) import ChappieCore
import ChappieWebSocket
import Foundation
import Security
import TestFixtures
import Testing

@testable import ChappieURLSession
@testable import Network

/// TLS and proxies of the adapter, over the stand-in's OpenSSL and its tunnels.
@Suite(.serialized, .timeLimit(.minutes(3))) struct SecurityTests {
    /// Runs `body` with nginx and tinyproxy. nginx answers with the protocol that was negotiated.
    private func withCounterparts(_ body: (Counterparts) async throws -> Void) async throws {
        let counterparts = try await Counterparts()
        defer { counterparts.end() }
        try await counterparts.start(locations: #"location / { return 200 "alpn $ssl_alpn_protocol\n"; }"#)
        try await body(counterparts)
    }

    private func answer(
        of port: Int, at host: String = "127.0.0.1", trusting file: String?,
        through proxy: ChappieNetworkPolicy.Proxy = .none
    ) async throws -> String {
        let policy = ChappieNetworkPolicy(proxy: proxy, extraCAFile: file)
        let stream = try await NetworkByteStreamTransport(policy: policy)
            .connect(host: host, port: port, isSecure: true)
        defer { stream.close() }
        try await stream.send(Array("GET / HTTP/1.1\r\nHost: \(host)\r\nConnection: close\r\n\r\n".utf8))
        var answer: [UInt8] = []
        while let bytes = try await stream.receive(atMost: 1000) { answer += bytes }
        return String(decoding: answer, as: UTF8.self)
    }

    @Test func `an extra authority is trusted for its own certificates and hosts`() async throws {
        try await withCounterparts { there in
            for host in ["127.0.0.1", "localhost"] {
                let answer = try await answer(of: there.good, at: host, trusting: there.authority)
                #expect(answer.hasSuffix("alpn http/1.1\n"), "\(answer)")
            }
            _ = try await answer(of: there.selfSigned, trusting: there.selfSignedCertificate)
            for (port, file) in [
                (there.good, nil), (there.good, there.selfSignedCertificate), (there.otherHost, there.authority),
                (there.expired, there.authority), (there.selfSigned, there.authority),
            ] {
                let error = try await failure { _ = try await answer(of: port, trusting: file) }
                #expect(error.code == .certificateRejected && error.stage == .tls, "\(error)")
                #expect(error.host == "127.0.0.1:\(port)")
            }
        }
    }

    @Test func `a peer without TLS or with an old version is refused`() async throws {
        try await withCounterparts { there in
            for port in [there.oldTLS, there.plain] {
                let error = try await failure { _ = try await answer(of: port, trusting: there.authority) }
                #expect(error.code == .tlsFailed && error.stage == .tls, "\(error)")
            }
        }
    }

    /// By the extension supported_versions of the ClientHello (RFC 8446, 4.2.1).
    @Test(arguments: [
        (ChappieNetworkPolicy.TLSVersion.tls12, [0, 43, 0, 5, 4, 3, 4, 3, 3] as [UInt8]),
        (.tls13, [0, 43, 0, 3, 2, 3, 4]),
    ])
    func `only allowed versions of TLS are offered`(
        _ oldest: ChappieNetworkPolicy.TLSVersion, _ words: [UInt8]
    ) async throws {
        let listener = try LoopbackListener()
        let hello = Task { try await onOwnThread { listener.accept()?.receive() } }
        let policy = ChappieNetworkPolicy(proxy: .none, minimumTLS: oldest)
        let error = try await failure {
            _ = try await NetworkByteStreamTransport(policy: policy)
                .connect(host: "127.0.0.1", port: listener.port, isSecure: true)
        }
        // The peer ends without an answer.
        #expect(error.code == .connectionLost && error.stage == .connect)
        #expect(try await hello.value?.contains(words) == true)
    }

    /// The stand-in has no connection to such a proxy, so this reads the options.
    @Test func `a proxy over https is held to the policy`() throws {
        let directory = try TemporaryDirectory()
        let block = "-----BEGIN CERTIFICATE-----\nAQID\n-----END CERTIFICATE-----\n"
        let policy = ChappieNetworkPolicy(
            proxy: .url("https://127.0.0.1:1"), extraCAFile: try directory.write(block, to: "authority.pem"),
            minimumTLS: .tls13)
        let origin = try Origin(of: #require(URL(string: "https://host.test")), for: .webSocket)
        let parameters = try SessionSettings(policy).parameters(
            proxy: ProxySelection(policy.proxy, for: origin, environment: [:]), for: origin)
        let proxy = try #require(parameters.context?.proxyConfigurations.first?.tlsOptions)
        let options = try #require(proxy.securityProtocolOptions as? ProtocolOptions)
        #expect(options.minimumVersion == .TLSv13)
        #expect(options.verification != nil)
        #expect(options.applicationProtocols == [])
    }

    @Test func `a proxy with credentials is asked for a tunnel`() async throws {
        try await withCounterparts { there in
            let proxy = ChappieNetworkPolicy.Proxy.url("http://someone:s3cret@127.0.0.1:\(there.proxy)")
            let answer = try await answer(of: there.good, trusting: there.authority, through: proxy)
            #expect(answer.hasSuffix("alpn http/1.1\n"))
            #expect(try there.proxyLog.contains("CONNECT 127.0.0.1:\(there.good)"))
            for refusing in ["http://someone:wrong@127.0.0.1:\(there.proxy)", "http://127.0.0.1:1"] {
                let error = try await failure {
                    _ = try await self.answer(of: there.good, trusting: there.authority, through: .url(refusing))
                }
                #expect(error.code == .proxyFailed && error.stage == .connect, "\(error)")
            }
        }
    }
}
