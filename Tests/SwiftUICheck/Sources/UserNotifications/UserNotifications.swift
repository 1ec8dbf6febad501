// Declarations only. Signatures: developer.apple.com/documentation/usernotifications/unusernotificationcenter and its
// members, …/unmutablenotificationcontent, …/unnotificationrequest, …/unnotificationsound, …/unauthorizationoptions. The
// classes are not Sendable here and the asynchronous functions leave the caller's actor: the strictest that Apple's may be.
public class UNUserNotificationCenter {
    public class func current() -> UNUserNotificationCenter { fatalError() }
    public func requestAuthorization(options: UNAuthorizationOptions = []) async throws -> Bool { fatalError() }
    public func add(_ request: UNNotificationRequest) async throws {}
}

public struct UNAuthorizationOptions: OptionSet, Sendable {
    public let rawValue: UInt
    public init(rawValue: UInt) { self.rawValue = rawValue }
    public static let sound = UNAuthorizationOptions(rawValue: 1 << 1)
    public static let alert = UNAuthorizationOptions(rawValue: 1 << 2)
}

public class UNNotificationContent {}

public class UNMutableNotificationContent: UNNotificationContent {
    public var title = ""
    public var body = ""
    public var sound: UNNotificationSound?
    public override init() {}
}

public class UNNotificationSound {
    public class var `default`: UNNotificationSound { fatalError() }
}

public class UNNotificationTrigger {}

public class UNNotificationRequest {
    public convenience init(identifier: String, content: UNNotificationContent, trigger: UNNotificationTrigger?) {
        fatalError()
    }
}
