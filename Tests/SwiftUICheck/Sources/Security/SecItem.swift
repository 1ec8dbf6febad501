// Declarations only. Each signature is that of the page which its comment names, under
// developer.apple.com/documentation/security unless it says otherwise.
// swift-format-ignore-file: AlwaysUseLowerCamelCase
public import Foundation

// …/corefoundation/cftyperef, cfdictionary, cfstring: what Foundation's objects are bridged to
public typealias CFTypeRef = AnyObject
public typealias CFDictionary = NSDictionary
public typealias CFString = NSString

// …/darwin/osstatus
public typealias OSStatus = Int32

// secitemadd(_:_:), secitemupdate(_:_:), secitemcopymatching(_:_:), secitemdelete(_:)
public func SecItemAdd(_ attributes: CFDictionary, _ result: UnsafeMutablePointer<CFTypeRef?>?) -> OSStatus {
    fatalError()
}
public func SecItemUpdate(_ query: CFDictionary, _ attributesToUpdate: CFDictionary) -> OSStatus { fatalError() }
public func SecItemCopyMatching(_ query: CFDictionary, _ result: UnsafeMutablePointer<CFTypeRef?>?) -> OSStatus {
    fatalError()
}
public func SecItemDelete(_ query: CFDictionary) -> OSStatus { fatalError() }

// ksecclass, ksecclassgenericpassword
public let kSecClass: CFString = ""
public let kSecClassGenericPassword: CFString = ""

// ksecattrservice, ksecattraccount, ksecattraccessgroup, ksecattrlabel, ksecattrsynchronizable, ksecattraccessible
public let kSecAttrService: CFString = ""
public let kSecAttrAccount: CFString = ""
public let kSecAttrAccessGroup: CFString = ""
public let kSecAttrLabel: CFString = ""
public let kSecAttrSynchronizable: CFString = ""
public let kSecAttrAccessible: CFString = ""

// ksecattraccessiblewhenunlockedthisdeviceonly, ksecattraccessibleafterfirstunlockthisdeviceonly
public let kSecAttrAccessibleWhenUnlockedThisDeviceOnly: CFString = ""
public let kSecAttrAccessibleAfterFirstUnlockThisDeviceOnly: CFString = ""

// ksecvaluedata, ksecreturndata, ksecmatchlimit, ksecmatchlimitone, ksecusedataprotectionkeychain
public let kSecValueData: CFString = ""
public let kSecReturnData: CFString = ""
public let kSecMatchLimit: CFString = ""
public let kSecMatchLimitOne: CFString = ""
public let kSecUseDataProtectionKeychain: CFString = ""

// …/foundation/filemanager/containerurl(forsecurityapplicationgroupidentifier:); Foundation lacks it on Linux.
extension FileManager {
    public func containerURL(forSecurityApplicationGroupIdentifier groupIdentifier: String) -> URL? { fatalError() }
}
