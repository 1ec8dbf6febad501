// Each signature is that of the page which its comment names, under developer.apple.com/documentation/security unless it
// says otherwise. The four calls work on a list in memory, or in the file that STANDIN_KEYCHAIN names, so that several
// processes have one keychain. That is all of a keychain that documents-run needs.
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
    items.change { all in
        // kSecAttrGeneric is no part of an item's key.
        let key = attributes.mutableCopy() as! NSMutableDictionary
        key.removeObject(forKey: kSecAttrGeneric as NSString)
        guard !all.contains(where: { isFound($0, by: key) }) else { return duplicateItem }
        all.append(attributes.mutableCopy() as! NSMutableDictionary)
        return success
    }
}
public func SecItemUpdate(_ query: CFDictionary, _ attributesToUpdate: CFDictionary) -> OSStatus {
    items.change { all in
        let found = all.filter { isFound($0, by: query) }
        for item in found {
            for (name, value) in attributesToUpdate { item.setObject(value, forKey: "\(name)" as NSString) }
        }
        return found.isEmpty ? itemNotFound : success
    }
}
public func SecItemCopyMatching(_ query: CFDictionary, _ result: UnsafeMutablePointer<CFTypeRef?>?) -> OSStatus {
    items.change { all in
        guard let item = all.first(where: { isFound($0, by: query) }) else { return itemNotFound }
        result?.pointee = (item[kSecValueData as String] as? Data).map { NSData(data: $0) }
        return success
    }
}
public func SecItemDelete(_ query: CFDictionary) -> OSStatus {
    items.change { all in
        let count = all.count
        all.removeAll { isFound($0, by: query) }
        return all.count == count ? itemNotFound : success
    }
}

// errsecsuccess, errsecduplicateitem, errsecitemnotfound
private let success: OSStatus = 0
private let duplicateItem: OSStatus = -25299
private let itemNotFound: OSStatus = -25300

private final class Items: @unchecked Sendable {
    private let lock = NSLock()
    private var all: [NSMutableDictionary] = []

    func change(_ body: (inout [NSMutableDictionary]) -> OSStatus) -> OSStatus {
        lock.lock()
        defer { lock.unlock() }
        guard let path = ProcessInfo.processInfo.environment["STANDIN_KEYCHAIN"] else { return body(&all) }
        let file = open(path + ".lock", O_RDWR | O_CREAT, 0o600)
        defer { close(file) }
        guard flock(file, LOCK_EX) == 0 else { fatalError("the stand-in's file has no lock") }
        let stored = try? Data(contentsOf: URL(filePath: path))
        let list = stored.flatMap {
            try? PropertyListSerialization.propertyList(from: $0, format: nil) as? [[String: Any]]
        }
        all = (list ?? []).map { NSMutableDictionary(dictionary: $0) }
        let status = body(&all)
        let plain = all.map { item in Dictionary(uniqueKeysWithValues: item.map { ("\($0.key)", $0.value) }) }
        do {
            let bytes = try PropertyListSerialization.data(fromPropertyList: plain, format: .binary, options: 0)
            // In one step, because a process may end in the middle of it.
            try bytes.write(to: URL(filePath: path), options: .atomic)
        } catch {
            fatalError("the stand-in's file can't be written: \(error)")
        }
        return status
    }
}

private let items = Items()

private func isFound(_ item: NSDictionary, by query: NSDictionary) -> Bool {
    let names = [kSecAttrService, kSecAttrAccount, kSecAttrAccessGroup].allSatisfy { name in
        guard let wanted = query[name as String] as? String else { return true }
        return item[name as String] as? String == wanted
    }
    guard names, let owner = query[kSecAttrGeneric as String] as? Data else { return names }
    return item[kSecAttrGeneric as String] as? Data == owner
}

// ksecclass, ksecclassgenericpassword
public let kSecClass: CFString = "kSecClass"
public let kSecClassGenericPassword: CFString = "kSecClassGenericPassword"

// ksecattrservice, ksecattraccount, ksecattraccessgroup, ksecattrgeneric, ksecattrlabel, ksecattrsynchronizable, ksecattraccessible
public let kSecAttrService: CFString = "kSecAttrService"
public let kSecAttrAccount: CFString = "kSecAttrAccount"
public let kSecAttrAccessGroup: CFString = "kSecAttrAccessGroup"
public let kSecAttrGeneric: CFString = "kSecAttrGeneric"
public let kSecAttrLabel: CFString = "kSecAttrLabel"
public let kSecAttrSynchronizable: CFString = "kSecAttrSynchronizable"
public let kSecAttrAccessible: CFString = "kSecAttrAccessible"

// ksecattraccessiblewhenunlockedthisdeviceonly, ksecattraccessibleafterfirstunlockthisdeviceonly
public let kSecAttrAccessibleWhenUnlockedThisDeviceOnly: CFString = "kSecAttrAccessibleWhenUnlockedThisDeviceOnly"
public let kSecAttrAccessibleAfterFirstUnlockThisDeviceOnly: CFString = "kSecAttrAccessibleAfterFirstUnlock"

// ksecvaluedata, ksecreturndata, ksecmatchlimit, ksecmatchlimitone, ksecusedataprotectionkeychain
public let kSecValueData: CFString = "kSecValueData"
public let kSecReturnData: CFString = "kSecReturnData"
public let kSecMatchLimit: CFString = "kSecMatchLimit"
public let kSecMatchLimitOne: CFString = "kSecMatchLimitOne"
public let kSecUseDataProtectionKeychain: CFString = "kSecUseDataProtectionKeychain"

// …/foundation/filemanager/containerurl(forsecurityapplicationgroupidentifier:); Foundation lacks it on Linux.
extension FileManager {
    public func containerURL(forSecurityApplicationGroupIdentifier groupIdentifier: String) -> URL? { fatalError() }
}
