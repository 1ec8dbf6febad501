// Declarations only. Each signature is that of the page which its comment names, under developer.apple.com/documentation/.
// swift-format-ignore-file: AlwaysUseLowerCamelCase
public import Foundation

// security/seckey
public final class SecKey {}

// security/ksecattrkeytype, ksecattrkeytypersa, ksecattrkeyclass, ksecattrkeyclasspublic
public let kSecAttrKeyType: CFString = "kSecAttrKeyType"
public let kSecAttrKeyTypeRSA: CFString = "kSecAttrKeyTypeRSA"
public let kSecAttrKeyClass: CFString = "kSecAttrKeyClass"
public let kSecAttrKeyClassPublic: CFString = "kSecAttrKeyClassPublic"

// security/seckeycreatewithdata(_:_:_:)
public func SecKeyCreateWithData(
    _ keyData: CFData, _ attributes: CFDictionary, _ error: UnsafeMutablePointer<Unmanaged<CFError>?>?
) -> SecKey? { fatalError() }

// security/seckeyalgorithm, seckeyalgorithm/init(rawvalue:)
public struct SecKeyAlgorithm: Hashable, RawRepresentable, @unchecked Sendable {
    public let rawValue: CFString
    public init(rawValue: CFString) { self.rawValue = rawValue }

    // security/seckeyalgorithm/rsasignaturemessagepkcs1v15sha256
    public static let rsaSignatureMessagePKCS1v15SHA256 = SecKeyAlgorithm(rawValue: "RSASignatureMessagePKCS1v15SHA256")
}

// security/seckeyverifysignature(_:_:_:_:_:)
public func SecKeyVerifySignature(
    _ key: SecKey, _ algorithm: SecKeyAlgorithm, _ signedData: CFData, _ signature: CFData,
    _ error: UnsafeMutablePointer<Unmanaged<CFError>?>?
) -> Bool { fatalError() }
