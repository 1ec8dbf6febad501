#if canImport(Security)
    public import ChappieAuth
    import ChappieCore
    import Security

    #if canImport(UIKit)
        import UIKit
    #endif

    // The project has not run this file on any machine. It is compiled against declarations that are written by hand.

    extension SecItemCalls {
        /// The keychain of this device.
        public static let system = SecItemCalls(
            add: { query, attributes in
                let item = query.dictionary.merging(attributes.dictionary) { name, _ in name }
                return KeychainStatus(rawValue: SecItemAdd(item as CFDictionary, nil))
            },
            update: { query, attributes in
                let changes = attributes.dictionary as CFDictionary
                return KeychainStatus(rawValue: SecItemUpdate(query.dictionary as CFDictionary, changes))
            },
            copyMatching: { query in
                var search = query.dictionary
                search[kSecReturnData as String] = true
                search[kSecMatchLimit as String] = kSecMatchLimitOne
                var found: CFTypeRef?
                let status = SecItemCopyMatching(search as CFDictionary, &found)
                return (KeychainStatus(rawValue: status), (found as? Data).map { Secret(Array($0)) })
            },
            delete: { query in KeychainStatus(rawValue: SecItemDelete(query.dictionary as CFDictionary)) },
            unlocks: { unlocksOfDevice() })

        /// Returns a stream with an element each time the user has unlocked the device. On a Mac it has ended.
        private static func unlocksOfDevice() -> AsyncStream<Void> {
            #if canImport(UIKit)
                AsyncStream { continuation in
                    let name = UIApplication.protectedDataDidBecomeAvailableNotification
                    let center = NotificationCenter.default
                    // The centre may be used on any thread, and nothing else uses the observer.
                    nonisolated(unsafe) let observer = center.addObserver(forName: name, object: nil, queue: nil) { _ in
                        continuation.yield()
                    }
                    continuation.onTermination = { _ in NotificationCenter.default.removeObserver(observer) }
                }
            #else
                AsyncStream { $0.finish() }
            #endif
        }
    }

    extension KeychainCredentialStore {
        /// Creates a store that uses the keychain of this device.
        ///
        /// - Parameters:
        ///   - accessibility: The condition for reading a credential. The default is
        ///     ``ChappieKeychainAccessibility/whenUnlockedThisDeviceOnly``.
        ///   - deadline: The limit for all steps of a call together. Must be positive. The default is 10 seconds.
        ///   - notes: The notes of the programs that share the credential. The default is items of the keychain.
        public init(
            accessibility: ChappieKeychainAccessibility = .whenUnlockedThisDeviceOnly,
            deadline: Duration = .seconds(10), notes: (any CredentialNotes)? = nil
        ) { self.init(accessibility: accessibility, deadline: deadline, notes: notes, calls: .system) }
    }

    extension KeychainRegistrationStore {
        /// Creates a store in the keychain of this device.
        ///
        /// - Parameter accessGroup: The access group of the id of this machine.
        public init(accessGroup: String? = nil) { self.init(accessGroup: accessGroup, calls: .system) }
    }

    extension KeychainQuery {
        /// The query in the system's form. It finds only items of this device, and none in a Mac's keychain files.
        fileprivate var dictionary: [String: Any] {
            var dictionary: [String: Any] = [
                kSecClass as String: kSecClassGenericPassword,
                kSecUseDataProtectionKeychain as String: true,
                kSecAttrSynchronizable as String: false,
                kSecAttrService as String: service,
                kSecAttrAccount as String: account,
            ]
            if let accessGroup { dictionary[kSecAttrAccessGroup as String] = accessGroup }
            if let owner { dictionary[kSecAttrGeneric as String] = Data(owner) }
            return dictionary
        }
    }

    extension KeychainAttributes {
        fileprivate var dictionary: [String: Any] {
            var dictionary: [String: Any] = [
                kSecAttrLabel as String: label,
                kSecAttrAccessible as String: accessibility.constant,
            ]
            // Security keeps a copy of these bytes that is not wiped.
            if let value { dictionary[kSecValueData as String] = value.withBytes { Data($0) } }
            return dictionary
        }
    }

    extension ChappieKeychainAccessibility {
        fileprivate var constant: CFString {
            switch self {
            case .whenUnlockedThisDeviceOnly: kSecAttrAccessibleWhenUnlockedThisDeviceOnly
            case .afterFirstUnlockThisDeviceOnly: kSecAttrAccessibleAfterFirstUnlockThisDeviceOnly
            }
        }
    }
#endif
