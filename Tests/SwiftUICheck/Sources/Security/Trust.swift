// Declarations only. Each signature is that of the page which its comment names, under developer.apple.com/documentation/.
// swift-format-ignore-file: AlwaysUseLowerCamelCase, TypeNamesShouldBeCapitalized
public import Foundation
public import FoundationNetworking

// corefoundation/cfarray, cfdata: Foundation's objects are bridged to them
public typealias CFArray = NSArray
public typealias CFData = NSData

// corefoundation/cfallocator, cferror
public final class CFAllocator {}
public final class CFError {}

// security/sectrust, security/seccertificate
public final class SecTrust {}
public final class SecCertificate {}

// security/errsecsuccess
public let errSecSuccess: OSStatus = 0

// security/seccertificatecreatewithdata(_:_:)
public func SecCertificateCreateWithData(_ allocator: CFAllocator?, _ data: CFData) -> SecCertificate? { fatalError() }

// security/sectrustsetanchorcertificates(_:_:), sectrustsetanchorcertificatesonly(_:_:), sectrustevaluatewitherror(_:_:)
public func SecTrustSetAnchorCertificates(_ trust: SecTrust, _ anchorCertificates: CFArray?) -> OSStatus {
    fatalError()
}
public func SecTrustSetAnchorCertificatesOnly(_ trust: SecTrust, _ anchorCertificatesOnly: Bool) -> OSStatus {
    fatalError()
}
public func SecTrustEvaluateWithError(_ trust: SecTrust, _ error: UnsafeMutablePointer<CFError?>?) -> Bool {
    fatalError()
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
