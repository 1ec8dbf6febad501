// Declarations only. Signatures: developer.apple.com/documentation/uikit/uipasteboard, …/uipasteboard/general and
// …/uipasteboard/string. Apple's pages name no actor for the class.
public class UIPasteboard {
    public class var general: UIPasteboard { fatalError() }
    public var string: String? {
        get { fatalError() }
        set {}
    }
}
