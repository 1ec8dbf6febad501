// Each signature is that of the page which its comment names, under developer.apple.com/documentation/security/. The options
// are kept for the stand-in of Network.
// swift-format-ignore-file: AlwaysUseLowerCamelCase, TypeNamesShouldBeCapitalized
public import Dispatch
public import Foundation

// sec_protocol_options_t, sec_protocol_metadata_t, sec_trust_t
public protocol OS_sec_protocol_options: NSObjectProtocol {}
public typealias sec_protocol_options_t = any OS_sec_protocol_options
public protocol OS_sec_protocol_metadata: NSObjectProtocol {}
public typealias sec_protocol_metadata_t = any OS_sec_protocol_metadata
public protocol OS_sec_trust: NSObjectProtocol {}
public typealias sec_trust_t = any OS_sec_trust

// sec_protocol_verify_t, sec_protocol_verify_complete_t
public typealias sec_protocol_verify_complete_t = (Bool) -> Void
public typealias sec_protocol_verify_t =
    (sec_protocol_metadata_t, sec_trust_t, @escaping sec_protocol_verify_complete_t) -> Void

/// The values that the functions below have set.
public final class ProtocolOptions: NSObject, OS_sec_protocol_options {
    public fileprivate(set) var minimumVersion = tls_protocol_version_t.TLSv12
    public fileprivate(set) var applicationProtocols: [String] = []
    public fileprivate(set) var verification: (block: sec_protocol_verify_t, queue: DispatchQueue)?
}
public final class ProtocolMetadata: NSObject, OS_sec_protocol_metadata {}
public final class ProtocolTrust: NSObject, OS_sec_trust {
    fileprivate let trust: SecTrust
    public init(_ trust: SecTrust) { self.trust = trust }
}

// sec_protocol_options_set_min_tls_protocol_version(_:_:)
public func sec_protocol_options_set_min_tls_protocol_version(
    _ options: sec_protocol_options_t, _ version: tls_protocol_version_t
) {
    (options as! ProtocolOptions).minimumVersion = version
}

// sec_protocol_options_add_tls_application_protocol(_:_:)
public func sec_protocol_options_add_tls_application_protocol(
    _ options: sec_protocol_options_t, _ application_protocol: UnsafePointer<CChar>
) {
    (options as! ProtocolOptions).applicationProtocols.append(String(cString: application_protocol))
}

// sec_protocol_options_set_verify_block(_:_:_:)
public func sec_protocol_options_set_verify_block(
    _ options: sec_protocol_options_t, _ verify_block: @escaping sec_protocol_verify_t,
    _ verify_block_queue: DispatchQueue
) {
    (options as! ProtocolOptions).verification = (verify_block, verify_block_queue)
}

// sec_trust_copy_ref(_:)
public func sec_trust_copy_ref(_ trust: sec_trust_t) -> Unmanaged<SecTrust> {
    .passRetained((trust as! ProtocolTrust).trust)
}

// secure_transport_result_codes
public let errSSLProtocol: OSStatus = -9800
public let errSSLClosedGraceful: OSStatus = -9805
public let errSSLClosedAbort: OSStatus = -9806
public let errSSLXCertChainInvalid: OSStatus = -9807
public let errSSLBadCert: OSStatus = -9808
public let errSSLUnknownRootCert: OSStatus = -9812
public let errSSLNoRootCert: OSStatus = -9813
public let errSSLCertExpired: OSStatus = -9814
public let errSSLCertNotYetValid: OSStatus = -9815
public let errSSLClosedNoNotify: OSStatus = -9816
public let errSSLHostNameMismatch: OSStatus = -9843
