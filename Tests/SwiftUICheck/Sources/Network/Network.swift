// The signatures are those of Network.swiftmodule's interface in the SDK of iOS 18.0, which developer.apple.com/documentation/
// network/ shows as well. What is set here, NWConnection.swift follows.
public import Foundation
public import FoundationNetworking
public import Security

public enum NWEndpoint: Hashable, Sendable {
    public enum Host: Hashable, Sendable {
        case name(String)

        public init(_ string: String) { self = .name(string) }
    }
    public struct Port: Hashable, Sendable {
        public let rawValue: UInt16

        public init?(rawValue: UInt16) { self.rawValue = rawValue }
    }
    case hostPort(host: Host, port: Port)
}

public class NWProtocolOptions: @unchecked Sendable {}

public class NWProtocolTLS {
    public class Options: NWProtocolOptions, @unchecked Sendable {
        public let securityProtocolOptions: sec_protocol_options_t = ProtocolOptions()

        public override init() {}
    }
}

public class NWProtocolTCP {
    public class Options: NWProtocolOptions, @unchecked Sendable {
        public var noDelay = false

        public override init() {}
    }
}

public final class NWParameters: @unchecked Sendable {
    public class PrivacyContext: @unchecked Sendable {
        public var proxyConfigurations: [ProxyConfiguration] = []

        public init(description: String) {}
    }

    let tls: NWProtocolTLS.Options?
    let tcp: NWProtocolTCP.Options
    private(set) var context: PrivacyContext?
    /// There are no system settings here.
    public var preferNoProxies = false

    public init(tls: NWProtocolTLS.Options?, tcp: NWProtocolTCP.Options = NWProtocolTCP.Options()) {
        self.tls = tls
        self.tcp = tcp
    }

    public func setPrivacyContext(_ privacyContext: PrivacyContext) { context = privacyContext }
}

public struct ProxyConfiguration: Sendable {
    final class Credential: @unchecked Sendable { var base64: String? }

    let endpoint: NWEndpoint
    let isCONNECT: Bool
    let tlsOptions: NWProtocolTLS.Options?
    let credential = Credential()
    public var allowFailover = false
    public var excludedDomains: [String] = []

    public init(httpCONNECTProxy: NWEndpoint, tlsOptions: NWProtocolTLS.Options? = nil) {
        endpoint = httpCONNECTProxy
        isCONNECT = true
        self.tlsOptions = tlsOptions
    }
    public init(socksv5Proxy: NWEndpoint) {
        endpoint = socksv5Proxy
        isCONNECT = false
        tlsOptions = nil
    }
    public func applyCredential(username: String, password: String) {
        credential.base64 = Data("\(username):\(password)".utf8).base64EncodedString()
    }
}

extension URLSessionConfiguration {
    public var proxyConfigurations: [ProxyConfiguration] {
        get { fatalError() }
        set { fatalError() }
    }
}

// dnssd's DNSServiceErrorType, and its kDNSServiceErr_NoSuchRecord
public typealias DNSServiceErrorType = Int32
let noSuchRecord: DNSServiceErrorType = -65554

public enum NWError: Error, Equatable {
    case posix(POSIXErrorCode)
    case dns(DNSServiceErrorType)
    case tls(OSStatus)
}
