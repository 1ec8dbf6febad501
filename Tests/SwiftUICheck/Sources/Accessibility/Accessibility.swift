// Declarations only. Signatures: developer.apple.com/documentation/accessibility/accessibilitynotification/announcement,
// …/announcement/init(_:), …/announcement/post().
public enum AccessibilityNotification {
    public struct Announcement {
        public init(_ announcement: String) {}
        public func post() {}
    }
}
