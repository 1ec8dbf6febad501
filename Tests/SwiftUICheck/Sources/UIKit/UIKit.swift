// Declarations only. Signatures: developer.apple.com/documentation/uikit/uipasteboard, …/uipasteboard/general,
// …/uipasteboard/setitems(_:options:), …/uipasteboard/optionskey, …/uiview and …/uiwindow. Apple's pages name no actor for
// UIPasteboard.
public import Foundation

public class UIPasteboard {
    public struct OptionsKey: RawRepresentable, Hashable, Sendable {
        public let rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }
        public static let expirationDate = OptionsKey(rawValue: "")
        public static let localOnly = OptionsKey(rawValue: "")
    }

    public class var general: UIPasteboard { fatalError() }
    public func setItems(_ items: [[String: Any]], options: [UIPasteboard.OptionsKey: Any] = [:]) {}
}

// …/uikit/uiapplication/protecteddatadidbecomeavailablenotification
@MainActor public class UIApplication {
    public nonisolated static let protectedDataDidBecomeAvailableNotification = Notification.Name("protected data")
}

// …/foundation/processinfo/performexpiringactivity(withreason:using:); Foundation lacks it on Linux and on a Mac.
// An activity lasts until its block returns. It expires by a second call of the block.
extension ProcessInfo {
    public func performExpiringActivity(withReason reason: String, using block: @escaping @Sendable (Bool) -> Void) {
        let id = UUID()
        activities.change { $0[id] = block }
        DispatchQueue.global().async {
            block(false)
            activities.change { $0[id] = nil }
        }
    }

    /// The stand-in's own: the number of activities, and their end.
    public var activityCount: Int { activities.change { $0.count } }
    public func expireActivities() { for block in activities.change({ Array($0.values) }) { block(true) } }
}

private final class Activities: @unchecked Sendable {
    private let lock = NSLock()
    private var blocks: [UUID: @Sendable (Bool) -> Void] = [:]

    func change<Output>(_ body: (inout [UUID: @Sendable (Bool) -> Void]) -> Output) -> Output {
        lock.lock()
        defer { lock.unlock() }
        return body(&blocks)
    }
}

private let activities = Activities()

@MainActor open class UIView: NSObject {
    public override nonisolated init() {}
    open var isUserInteractionEnabled = true
    open var window: UIWindow? { fatalError() }
}

@MainActor open class UIWindow: UIView {}
