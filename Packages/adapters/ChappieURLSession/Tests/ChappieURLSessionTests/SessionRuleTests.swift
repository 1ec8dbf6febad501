@_spi(ChappieInternals) import ChappieCore
import Foundation
import FoundationNetworking
import HTTPTypes
import TestFixtures
import Testing

@testable import ChappieURLSession

@Suite struct SessionRuleTests {
    @Test(arguments: [
        (URLError.Code.cannotFindHost, ChappieTransportError.Code.unknownHost, ChappieTransportError.Stage.connect),
        (.cannotConnectToHost, .connectFailed, .connect), (.notConnectedToInternet, .connectFailed, .connect),
        (.networkConnectionLost, .connectionLost, .responseHead), (.timedOut, .timedOut, .responseHead),
        (.serverCertificateHasBadDate, .certificateRejected, .tls),
        (.serverCertificateUntrusted, .certificateRejected, .tls),
        (.serverCertificateHasUnknownRoot, .certificateRejected, .tls),
        (.secureConnectionFailed, .tlsFailed, .tls), (.clientCertificateRequired, .tlsFailed, .tls),
        (.appTransportSecurityRequiresSecureConnection, .insecureURL, .configuration),
        (.badURL, .invalidURL, .configuration), (.cannotParseResponse, .protocolViolation, .responseHead),
        (.unknown, .connectionLost, .responseHead),
    ])
    func eachErrorOfURLSessionHasAMeaning(
        code: URLError.Code, meaning: ChappieTransportError.Code, stage: ChappieTransportError.Stage
    ) {
        let error = SessionFailure(code: code.rawValue).error(at: .responseHead, host: "host.test")
        #expect(error.code == meaning)
        #expect(error.stage == stage)
        #expect(error.host == "host.test")
    }

    @Test func aFailureOfTheProxyIsNotTheServers() {
        for code in [306, 310, 311] {
            let failure = SessionFailure(code: code, domain: "kCFErrorDomainCFNetwork")
            #expect(failure.error(at: .connect, host: "h").code == .proxyFailed)
        }
        #expect(SessionFailure(code: 1, domain: "kCFErrorDomainCFNetwork") == .lost)
        #expect(SessionFailure(code: 310, domain: "NSPOSIXErrorDomain") == .lost)
    }

    @Test func theExtraFileIsReadBeforeAnythingIsSent() throws {
        let directory = try TemporaryDirectory()
        let key = try directory.write("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", to: "key.pem")
        let damaged = try directory.write("-----BEGIN CERTIFICATE-----\n", to: "damaged.pem")
        for (file, problem) in [
            ("/no/such/file", "can't be read: "), ("/dev/zero", "can't be read: it is not a regular file"),
            (key, "holds no certificate in PEM form"), (damaged, "holds no certificate that can be read"),
        ] {
            let error = #expect(throws: ChappieTransportError.self) {
                try URLSessionHTTPTransport(policy: ChappieNetworkPolicy(proxy: .none, extraCAFile: file))
                    .check(#require(URL(string: "https://host.invalid/")))
            }
            #expect(error?.code == .invalidCAFile && error?.stage == .configuration)
            #expect(
                error?.reason.hasPrefix("the extra CA file \(file) \(problem)") == true, "\(String(describing: error))")
        }
    }

    @Test func theExtraFileMayHoldSeveralCertificates() throws {
        let directory = try TemporaryDirectory()
        let block = "-----BEGIN CERTIFICATE-----\nAQID\nBAUG\n-----END CERTIFICATE-----\n"
        let x509 = "-----BEGIN X509 CERTIFICATE-----\r\nBwgJ\r\n-----END X509 CERTIFICATE-----\r\n"
        let file = try directory.write("Subject: one\n\(block)\nSubject: two\n\(x509)", to: "two.pem")
        let settings = try SessionSettings(ChappieNetworkPolicy(extraCAFile: file))
        #expect(settings.authorities == [Data([1, 2, 3, 4, 5, 6]), Data([7, 8, 9])])
    }

    @Test func `a policy that FoundationNetworking cannot apply is refused`() async throws {
        let url = try #require(URL(string: "https://host.invalid/"))
        for (policy, words) in [
            (ChappieNetworkPolicy(proxy: .none, minimumTLS: .tls13), "insist on TLS 1.3"),
            (ChappieNetworkPolicy(proxy: .url("http://127.0.0.1:1")), "use a proxy that is not in the environment"),
        ] {
            let error = #expect(throws: ChappieTransportError.self) {
                try URLSessionHTTPTransport(policy: policy).check(url)
            }
            #expect(error?.code == .unavailable && error?.stage == .configuration)
            #expect(error?.reason == "FoundationNetworking can't \(words)")
        }
        let request = HTTPExchangeRequest(url: url, body: .init(bytes: [1]))
        let error = await #expect(throws: ChappieTransportError.self) {
            try await URLSessionHTTPTransport(policy: ChappieNetworkPolicy(proxy: .none)).send(request)
        }
        #expect(error?.reason == "URLSession sends no body with GET")
    }
}
