import ChappieCore
import Foundation
import Testing

@_spi(ChappieInternals) @testable import ChappieCurl

@Suite struct TrustTests {
    @Test func countsTheCertificatesOfARealBundle() throws {
        let path = try #require(TrustAnchors.defaultSystemFile)
        let bytes = try BoundedFile.read(path, limit: 16 << 20)
        let count = try #require(PEMText.countCertificates(in: bytes))
        #expect(count > 50)
        // Lines end in CR LF where the file has been on other systems.
        let onOtherSystems = bytes.flatMap { $0 == 0x0A ? [0x0D, 0x0A] : [$0] }
        #expect(PEMText.countCertificates(in: onOtherSystems) == count)
    }

    @Test(arguments: [
        "-----BEGIN CERTIFICATE-----\n", "-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n",
        "-----BEGIN CERTIFICATE-----\nAAAAAAAA\n-----END CERTIFICATE-----\n", "-----END CERTIFICATE-----\n",
        "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n",
        "-----BEGIN CERTIFICATE-----\nMIIBIjANBgkq\n-----END CERTIFICATE-----\n",
    ])
    func aDamagedCertificateIsSeen(text: String) {
        #expect(PEMText.countCertificates(in: Array(text.utf8)) == nil)
    }

    @Test(arguments: ["", "hello\n", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"])
    func aFileWithoutACertificateHasNone(text: String) {
        #expect(PEMText.countCertificates(in: Array(text.utf8)) == 0)
    }

    @Test func theExtraFileStandsBesideTheSystems() throws {
        let system = try #require(TrustAnchors.defaultSystemFile)
        let bundle = try String(contentsOfFile: system, encoding: .utf8)
        let end = "-----END CERTIFICATE-----\n"
        let one = try #require(bundle.range(of: end)).upperBound
        let extra = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString).path
        try String(bundle[..<one]).write(toFile: extra, atomically: false, encoding: .utf8)
        defer { try? FileManager.default.removeItem(atPath: extra) }
        let inSystem = try #require(PEMText.countCertificates(in: BoundedFile.read(system, limit: 16 << 20)))
        guard case .systemAnd(extraFile: extra, let combined) = try TrustAnchors(extraFile: extra) else {
            Issue.record("the extra file was not taken up")
            return
        }
        #expect(PEMText.countCertificates(in: combined) == inSystem + 1)
        // Without a bundle, the system's directory of certificates may still do.
        #expect(throws: Never.self) { try TrustAnchors(extraFile: extra, systemFile: "/no/such/bundle") }
    }

    @Test func aNamedPipeIsNotWaitedFor() throws {
        let path = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString).path
        try #require(mkfifo(path, 0o600) == 0)
        defer { unlink(path) }
        let error = try #require(throws: ChappieTransportError.self) { _ = try TrustAnchors(extraFile: path) }
        #expect(error.code == .invalidCAFile)
        #expect(error.reason == "the extra CA file \(path) can't be read: it is not a file")
    }
}
