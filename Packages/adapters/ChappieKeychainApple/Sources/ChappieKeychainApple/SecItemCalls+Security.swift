#if canImport(Security)
    public import ChappieAuth
    import ChappieCore
    import Security

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
            delete: { query in KeychainStatus(rawValue: SecItemDelete(query.dictionary as CFDictionary)) })
    }

    extension KeychainCredentialStore {
        /// Creates a store that uses the keychain of this device.
        ///
        /// - Parameters:
        ///   - accessibility: The condition for reading a credential. The default is
        ///     ``ChappieKeychainAccessibility/whenUnlockedThisDeviceOnly``.
        ///   - deadline: The limit for all steps of a call together. Must be positive. The default is 10 seconds.
        public init(
            accessibility: ChappieKeychainAccessibility = .whenUnlockedThisDeviceOnly, deadline: Duration = .seconds(10)
        ) { self.init(accessibility: accessibility, deadline: deadline, calls: .system) }
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
