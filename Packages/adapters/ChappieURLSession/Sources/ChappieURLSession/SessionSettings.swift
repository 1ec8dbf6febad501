@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// The proxies and the trust of a policy. SessionSettings+Apple.swift applies them to a session.
struct SessionSettings: Sendable {
    let policy: ChappieNetworkPolicy
    /// The proxy variables of this process, if the policy uses them.
    let variables: [String: String]
    /// The certificates of the extra CA file, in DER.
    let authorities: [Data]

    /// Reads the settings of a policy.
    ///
    /// - Throws: ``ChappieTransportError`` with code `.invalidCAFile`, naming the file.
    init(_ policy: ChappieNetworkPolicy) throws(ChappieTransportError) {
        self.policy = policy
        let all = policy.proxy == .environment ? ProcessInfo.processInfo.environment : [:]
        variables = all.filter { ProxySelection.variables.contains($0.key) }
        authorities = if let file = policy.extraCAFile { try Self.certificates(in: file) } else { [] }
    }

    private static func certificates(in file: String) throws(ChappieTransportError) -> [Data] {
        let bytes: [UInt8]
        do throws(WholeFile.Failure) {
            bytes = try WholeFile.contents(of: file, limit: 16 << 20)
        } catch {
            throw invalid(file, "can't be read: \(error.words)")
        }
        let blocks = String(decoding: bytes, as: UTF8.self).split(separator: "-----BEGIN ").compactMap { block in
            // OpenSSL also reads a trust anchor from blocks with these labels.
            ["CERTIFICATE-----", "X509 CERTIFICATE-----"].first { block.hasPrefix($0) }.map { label in
                block.dropFirst(label.count).prefix { $0 != "-" }
            }
        }
        guard !blocks.isEmpty else { throw invalid(file, "holds no certificate in PEM form") }
        // Only the certificates that can't be read are ignored.
        let usable = blocks.compactMap { Data(base64Encoded: String($0), options: .ignoreUnknownCharacters) }
            .filter(isCertificate)
        guard !usable.isEmpty else { throw invalid(file, "holds no certificate that can be read") }
        return usable
    }

    private static func invalid(_ file: String, _ problem: String) -> ChappieTransportError {
        ChappieTransportError(
            .invalidCAFile, stage: .configuration, host: "", reason: "the extra CA file \(file) \(problem)")
    }
}

#if !canImport(Security)
    // FoundationNetworking is built on libcurl and hides the options that the policy needs. CONTRIBUTING.md contains
    // the measurements.
    extension SessionSettings {
        /// Whether a session keeps its connections. libcurl repeats a request if a kept connection turns out to be
        /// dead, and no option forbids this.
        static let keepsConnections = false

        private static func isCertificate(_ data: Data) -> Bool { !data.isEmpty }

        private static var hasProxyInEnvironment: Bool {
            ProxySelection.variables.contains { !$0.lowercased().hasPrefix("no_") && getenv($0) != nil }
        }

        /// Checks that the policy can be followed here. Sets nothing.
        ///
        /// - Throws: ``ChappieTransportError`` with code `.unavailable` if the policy requires something that is not
        ///   available here.
        func apply(
            to configuration: URLSessionConfiguration, proxy: ProxySelection?, for origin: Origin
        ) throws(ChappieTransportError) {
            let missing: String? =
                if !authorities.isEmpty {
                    "trust another authority"
                } else if policy.minimumTLS != .tls12 {
                    "insist on TLS 1.3"
                } else if proxy != nil, policy.proxy != .environment {
                    "use a proxy that is not in the environment"
                } else if proxy == nil, Self.hasProxyInEnvironment {
                    "pass over the proxy in the environment"
                } else {
                    nil
                }
            if let missing { throw .unavailable("FoundationNetworking can't \(missing)", host: origin.label) }
        }
    }

    extension URLSessionTask: SessionTask {
        func begin() { resume() }
        /// Does nothing. A task that was suspended and is resumed sends its request again, so everything is buffered.
        func hold() {}
        func proceed() {}
    }
#endif
