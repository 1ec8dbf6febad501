import ChappieCore
import Foundation
import TestFixtures
import Testing

@_spi(ChappieInternals) @testable import ChappieCurl

@Suite struct TrustTests {
    @Test func theExtraFileStandsBesideTheSystems() throws {
        let system = try #require(TrustAnchors.defaultSystemFile)
        let bundle = try Data(contentsOf: URL(filePath: system))
        let directory = try TemporaryDirectory()
        let extra = try directory.write("-----BEGIN X509 CERTIFICATE-----\nmore\n", to: "extra.pem")
        let more = Array("\n-----BEGIN X509 CERTIFICATE-----\nmore\n".utf8)
        #expect(try TrustAnchors(extraFile: extra).bundle == [UInt8](bundle) + more)
        // Without a bundle, the system's directory of certificates may still do.
        #expect(try TrustAnchors(extraFile: extra, systemFile: "/no/such/bundle").bundle == more)
    }

    /// A named pipe is not waited for, and what never ends is not read.
    @Test func aFileThatHoldsNoCertificatesIsNamed() throws {
        let directory = try TemporaryDirectory()
        try #require(mkfifo(directory.path("pipe"), 0o600) == 0)
        let key = try directory.write("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", to: "key.pem")
        for (file, problem) in [
            (directory.path("pipe"), "can't be read: it is not a file"),
            ("/dev/zero", "can't be read: it is not a file"),
            ("/etc", "can't be read: it is not a file"), ("/no/such/file", "can't be read: there is no such file"),
            (key, "holds no certificate in PEM form"),
        ] {
            let error = try #require(throws: ChappieTransportError.self) { _ = try TrustAnchors(extraFile: file) }
            #expect(error.code == .invalidCAFile)
            #expect(error.stage == .configuration)
            #expect(error.reason == "the extra CA file \(file) \(problem)")
        }
    }
}

extension OverTheWire {
    @Suite(.counterparts) struct DamagedAuthorityTests {
        @Test(arguments: [
            "", "!!\n-----END CERTIFICATE-----\n", "AAAAAAAA\n-----END CERTIFICATE-----\n",
            "-----END CERTIFICATE-----\n", "MIIBIjANBgkq\n-----END CERTIFICATE-----\n",
        ])
        func aDamagedCertificateIsSeen(text: String) async throws {
            let directory = try TemporaryDirectory()
            let file = try directory.write("-----BEGIN CERTIFICATE-----\n\(text)", to: "damaged.pem")
            let url = try Adapter.http.url(port: Counterparts.current.good)
            let error = try await transportError {
                _ = try await Adapter.http.exchange(with: url, under: .test(extraCAFile: file))
            }
            #expect(error.code == .invalidCAFile, "\(error.reason)")
            #expect(error.reason == "the extra CA file \(file) holds a certificate that OpenSSL can't read")
        }
    }
}
