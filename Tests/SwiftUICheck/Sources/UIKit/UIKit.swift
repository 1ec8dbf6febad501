// Declarations only. Signatures: developer.apple.com/documentation/uikit/uipasteboard, …/uipasteboard/general and
// …/uipasteboard/string. Apple's pages name no actor for the class.
public import Foundation

public class UIPasteboard {
    public class var general: UIPasteboard { fatalError() }
    public var string: String? {
        get { fatalError() }
        set {}
    }
}

// …/uikit/uiapplication/protecteddatadidbecomeavailablenotification
@MainActor public class UIApplication {
    public nonisolated static let protectedDataDidBecomeAvailableNotification = Notification.Name("protected data")
}

// …/foundation/processinfo/performexpiringactivity(withreason:using:); Foundation lacks it on Linux and on a Mac.
extension ProcessInfo {
    public func performExpiringActivity(withReason reason: String, using block: @escaping @Sendable (Bool) -> Void) {
        DispatchQueue.global().async { block(false) }
    }
}
