@_spi(ChappieInternals) import ChappieCore
import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// The meaning of an error from URLSession. Its text is not shown, because it contains the URL.
enum SessionFailure: Equatable, Sendable {
    case lost
    case timedOut
    case violation(String)
    case failed(ChappieTransportError.Code, ChappieTransportError.Stage, String)

    static let untrustedAuthority = certificateRejected("is from an authority that is not trusted here")

    init(_ error: any Error) {
        #if canImport(Security)
            self = .init(code: (error as NSError).code, domain: (error as NSError).domain)
        #else
            // FoundationNetworking has a code for only a few failures, and libcurl's message for all of them.
            self = .init(sentence: error.localizedDescription) ?? .init(code: (error as NSError).code)
        #endif
    }

    func error(at stage: ChappieTransportError.Stage, host: String) -> ChappieTransportError {
        switch self {
        case .lost: .lost(at: stage, host: host)
        case .timedOut: .timedOut(at: stage, host: host)
        // An answer has arrived, however much of the request has been sent.
        case .violation(let rule):
            .violation(rule, at: [.connect, .request].contains(stage) ? .responseHead : stage, host: host)
        case .failed(let code, let stage, let reason):
            ChappieTransportError(code, stage: stage, host: host, reason: reason)
        }
    }

    /// Creates a failure from a code of `URLError`, or from a code of CFNetwork for proxies.
    init(code: Int, domain: String = NSURLErrorDomain) {
        guard domain == NSURLErrorDomain else {
            // The codes of CFNetworkErrors for SOCKS proxies and for HTTP proxies.
            let isProxys = (100..<200).contains(code) || (306...311).contains(code)
            self =
                domain == "kCFErrorDomainCFNetwork" && isProxys
                ? .failed(.proxyFailed, .connect, "the proxy can't be reached, or refused") : .lost
            return
        }
        self =
            switch URLError.Code(rawValue: code) {
            case .cannotFindHost, .dnsLookupFailed: .failed(.unknownHost, .connect, "the name does not resolve")
            case .cannotConnectToHost: .failed(.connectFailed, .connect, "no connection")
            case .notConnectedToInternet, .dataNotAllowed, .internationalRoamingOff, .callIsActive:
                .failed(.connectFailed, .connect, "this device has no network")
            case .timedOut: .timedOut
            case .serverCertificateHasBadDate: .certificateRejected("has expired")
            case .serverCertificateNotYetValid: .certificateRejected("is not valid yet, by the clock of this machine")
            case .serverCertificateHasUnknownRoot: .untrustedAuthority
            case .serverCertificateUntrusted: .certificateRejected("is not trusted, or for another host")
            case .secureConnectionFailed: .failed(.tlsFailed, .tls, "the handshake failed")
            case .clientCertificateRejected, .clientCertificateRequired:
                .failed(.tlsFailed, .tls, "it asks for a certificate of this device")
            case .appTransportSecurityRequiresSecureConnection:
                .failed(.insecureURL, .configuration, "App Transport Security allows no plain http in this app")
            case .badURL, .unsupportedURL: .failed(.invalidURL, .configuration, "the address can't be used")
            case .badServerResponse, .cannotParseResponse, .cannotDecodeRawData, .cannotDecodeContentData,
                .zeroByteResource, .dataLengthExceedsMaximum:
                .violation("its answer breaks the rules of HTTP")
            default: .lost
            }
    }

    #if !canImport(Security)
        /// Creates a failure from libcurl's message. Returns `nil` if the message contains no more information than the
        /// code.
        init?(sentence: String) {
            func speaks(of words: String...) -> Bool { words.contains { sentence.contains($0) } }
            if speaks(of: "certificate") {
                self = .certificateRejected("is not trusted")
            } else if speaks(
                of: "SSL_ERROR_SYSCALL", "unexpected eof", "transfer closed", "Empty reply", "reset by peer")
            {
                self = .lost
            } else if speaks(of: "SSL", "TLS") {
                self = .failed(.tlsFailed, .tls, "the handshake failed")
            } else if speaks(of: "HTTP", "header", "chunked", "Content-Length", "memory", "content unencoding") {
                self = .violation("its answer breaks the rules of HTTP")
            } else {
                return nil
            }
        }
    #endif

    private static func certificateRejected(_ predicate: String) -> Self {
        .failed(.certificateRejected, .tls, "its certificate \(predicate)")
    }
}
