import ChappieCore
import Foundation
import TestFixtures
import Testing

@_spi(ChappieInternals) @testable import ChappieCurl

@Suite struct TrustTests {
    /// A named pipe is not waited for, and what never ends is not read.
    @Test(arguments: ["CA_SETTING", "SSL_CERT_FILE"]) func aFileThatHoldsNoCertificatesIsNamed(setting: String) throws {
        let directory = try TemporaryDirectory()
        try #require(mkfifo(directory.path("pipe"), 0o600) == 0)
        let key = try directory.write("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", to: "key.pem")
        for (file, problem) in [
            (directory.path("pipe"), "can't be read: it is not a file"),
            ("/dev/zero", "can't be read: it is not a file"),
            ("/etc", "can't be read: it is not a file"), ("/no/such/file", "can't be read: there is no such file"),
            (key, "holds no certificate in PEM form"),
        ] {
            let error = try #require(throws: ChappieTransportError.self) {
                _ = setting == "SSL_CERT_FILE" ? try anchors(environment: [setting: file]) : try anchors(extra: file)
            }
            #expect(error.code == .invalidCAFile)
            #expect(error.stage == .configuration)
            #expect(error.reason == "\(setting) (\(file)) \(problem)")
            #expect(error.recoverySuggestion?.contains("Point \(setting) at") == true)
        }
    }

    @Test func `a directory without certificates is named`() throws {
        let directory = try TemporaryDirectory()
        for path in [directory.path, directory.path("missing")] {
            let error = try #require(throws: ChappieTransportError.self) {
                _ = try anchors(environment: ["SSL_CERT_DIR": path])
            }
            #expect(error.reason == "SSL_CERT_DIR (\(path)) holds no certificate")
        }
    }

    @Test func `nothing is read where the variables name the system's own`() throws {
        let system = try #require(TrustAnchors.defaultSystemFile)
        #expect(try anchors(environment: ["SSL_CERT_FILE": system]) == nil)
        #expect(try anchors(environment: ["SSL_CERT_FILE": " ", "SSL_CERT_DIR": ""]) == nil)
    }
}

private func anchors(
    extra: String? = nil, environment: [String: String] = [:], system: String? = TrustAnchors.defaultSystemFile
) throws -> TrustAnchors? {
    try TrustAnchors(extraFile: extra, called: "CA_SETTING", environment: environment, systemFile: system)
}

extension OverTheWire {
    @Suite(.counterparts) struct AuthorityFileTests {
        private let directory: TemporaryDirectory
        private let authority: String

        init() throws {
            directory = try TemporaryDirectory()
            authority = try String(contentsOfFile: Counterparts.current.authority, encoding: .utf8)
        }

        @Test func theExtraFileStandsBesideTheSystems() throws {
            let system = try #require(TrustAnchors.defaultSystemFile)
            let extra = try Counterparts.current.authority
            let trust = try #require(try anchors(extra: extra))
            let added = Array("\n\(authority)".utf8)
            #expect(trust.bundle == [UInt8](try Data(contentsOf: URL(filePath: system))) + added)
            #expect(trust.usesSystemDirectory)
            #expect(trust.replacement == nil)
            #expect(!trust.isSystemMissing)
            // Without a bundle, the system's directory of certificates may still do.
            let alone = try #require(try anchors(extra: extra, system: "/no/such/bundle"))
            #expect(alone.bundle == added && alone.isSystemMissing)
        }

        @Test func `SSL_CERT_FILE and SSL_CERT_DIR stand in the place of the system's`() throws {
            let folder = try TemporaryDirectory()
            let file = try folder.write(authority, to: "company.crt")
            _ = try folder.write(authority, to: "0a1b2c3d.0")
            _ = try folder.write("no certificate", to: "README")
            let byFile = try #require(try anchors(environment: ["SSL_CERT_FILE": "\(file)\n"]))
            #expect(byFile.bundle == Array("\n\(authority)".utf8) && byFile.usesSystemDirectory)
            #expect(byFile.replacement == "SSL_CERT_FILE (\(file))")
            let path = "\(folder.path("missing")):\(folder.path)"
            let byFolder = try #require(try anchors(environment: ["SSL_CERT_DIR": path], system: nil))
            #expect(byFolder.bundle == Array("\n\(authority)".utf8) && !byFolder.usesSystemDirectory)
        }

        @Test func `a mark of the byte order does not hide the first certificate`() async throws {
            let marked: [(String, [UInt8])] = [
                ("utf-8", [0xEF, 0xBB, 0xBF] + Array(authority.utf8)),
                ("utf-16-le", [0xFF, 0xFE] + authority.utf16.flatMap { [UInt8($0 & 0xFF), UInt8($0 >> 8)] }),
                ("utf-16-be", [0xFE, 0xFF] + authority.utf16.flatMap { [UInt8($0 >> 8), UInt8($0 & 0xFF)] }),
                ("crlf", Array(authority.replacing("\n", with: "\r\n").utf8)),
            ]
            for (name, bytes) in marked {
                let file = directory.path(name)
                try Data(bytes).write(to: URL(filePath: file))
                #expect(try await greeting(trusting: file).hasPrefix("hello"), "\(name)")
            }
        }

        @Test(arguments: [
            "", "!!\n-----END CERTIFICATE-----\n", "AAAAAAAA\n-----END CERTIFICATE-----\n",
            "-----END CERTIFICATE-----\n", "MIIBIjANBgkq\n-----END CERTIFICATE-----\n",
        ])
        func `a damaged certificate costs itself`(text: String) async throws {
            let damaged = "-----BEGIN CERTIFICATE-----\n\(text)"
            let alone = try directory.write(damaged, to: "damaged.pem")
            let error = try await transportError { _ = try await greeting(trusting: alone) }
            #expect(error.code == .invalidCAFile)
            #expect(error.reason == "the extra CA file (\(alone)) holds no certificate that can be read")
            let both = try directory.write("\(authority)\(damaged)\n\(authority)", to: "both.pem")
            #expect(try await greeting(trusting: both).hasPrefix("hello"))
            let notes = try #require(try anchors(extra: both)).notes
            #expect(
                notes == ["Certificate 2 of 3 in CA_SETTING (\(both)) can't be read, and the others are used."])
        }

        private func greeting(trusting file: String) async throws -> String {
            try await Adapter.http.exchange(
                with: Adapter.http.url(port: Counterparts.current.good), under: .test(extraCAFile: file))
        }
    }
}
