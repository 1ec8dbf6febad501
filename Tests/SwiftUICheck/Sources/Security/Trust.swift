// Each signature is that of the page which its comment names, under developer.apple.com/documentation/. A trust is evaluated
// by whoever made it, which is the stand-in of Network; all else is declared only.
// swift-format-ignore-file: AlwaysUseLowerCamelCase, TypeNamesShouldBeCapitalized
public import Foundation
public import FoundationNetworking

// corefoundation/cfarray, cfdata: Foundation's objects are bridged to them
public typealias CFArray = NSArray
public typealias CFData = NSData

// corefoundation/cfallocator, cferror
public final class CFAllocator {}
public final class CFError {}

// security/sectrust, security/seccertificate, security/secpolicy
public final class SecTrust {
    /// The values that the functions below have set.
    public private(set) var anchors: [Data] = []
    public private(set) var hasOnlyAnchors = false
    public private(set) var host: String?
    private let evaluation: (SecTrust) -> Bool

    public init(host: String?, evaluation: @escaping (SecTrust) -> Bool) {
        self.host = host
        self.evaluation = evaluation
    }

    fileprivate func set(anchors: [Data]) {
        self.anchors = anchors
        // As SecTrustSetAnchorCertificates says.
        hasOnlyAnchors = true
    }
    fileprivate func set(hasOnlyAnchors: Bool) { self.hasOnlyAnchors = hasOnlyAnchors }
    fileprivate func set(host: String?) { self.host = host }
    fileprivate func evaluate() -> Bool { evaluation(self) }
}
public final class SecCertificate {
    fileprivate let data: Data
    fileprivate init(_ data: Data) { self.data = data }
}
public final class SecPolicy {
    fileprivate let host: String?
    fileprivate init(host: String?) { self.host = host }
}

// security/errsecsuccess
public let errSecSuccess: OSStatus = 0

// security/seccertificatecreatewithdata(_:_:); Apple's reads the certificate.
public func SecCertificateCreateWithData(_ allocator: CFAllocator?, _ data: CFData) -> SecCertificate? {
    SecCertificate(Data(referencing: data))
}

// security/secpolicycreatessl(_:_:), sectrustsetpolicies(_:_:)
public func SecPolicyCreateSSL(_ server: Bool, _ hostname: CFString?) -> SecPolicy {
    SecPolicy(host: hostname.map { "\($0)" })
}
public func SecTrustSetPolicies(_ trust: SecTrust, _ policies: CFTypeRef) -> OSStatus {
    trust.set(host: (policies as! SecPolicy).host)
    return errSecSuccess
}

// security/sectrustsetanchorcertificates(_:_:), sectrustsetanchorcertificatesonly(_:_:), sectrustevaluatewitherror(_:_:)
public func SecTrustSetAnchorCertificates(_ trust: SecTrust, _ anchorCertificates: CFArray?) -> OSStatus {
    trust.set(anchors: (anchorCertificates ?? []).map { ($0 as! SecCertificate).data })
    return errSecSuccess
}
public func SecTrustSetAnchorCertificatesOnly(_ trust: SecTrust, _ anchorCertificatesOnly: Bool) -> OSStatus {
    trust.set(hasOnlyAnchors: anchorCertificatesOnly)
    return errSecSuccess
}
public func SecTrustEvaluateWithError(_ trust: SecTrust, _ error: UnsafeMutablePointer<CFError?>?) -> Bool {
    trust.evaluate()
}

// security/tls_protocol_version_t
public enum tls_protocol_version_t: UInt16, Sendable {
    case TLSv12 = 771
    case TLSv13 = 772
}

// foundation/urlsessionconfiguration/tlsminimumsupportedprotocolversion; FoundationNetworking lacks it, and the next two.
extension URLSessionConfiguration {
    public var tlsMinimumSupportedProtocolVersion: tls_protocol_version_t {
        get { fatalError() }
        // documents-run speaks plain HTTP to a simulator.
        set {}
    }
}

// foundation/urlprotectionspace/servertrust
extension URLProtectionSpace {
    public var serverTrust: SecTrust? { fatalError() }
}

// foundation/urlcredential/init(trust:)
extension URLCredential {
    public convenience init(trust: SecTrust) { fatalError() }
}
