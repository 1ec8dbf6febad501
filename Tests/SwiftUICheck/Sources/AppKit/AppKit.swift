// Declarations only. Signatures: developer.apple.com/documentation/appkit/nspasteboard, …/nspasteboard/general,
// …/nspasteboard/clearcontents(), …/nspasteboard/setstring(_:fortype:), …/nspasteboard/pasteboardtype.
public class NSPasteboard {
    public struct PasteboardType: RawRepresentable, Hashable, Sendable {
        public let rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }
        public static let string = PasteboardType(rawValue: "")
    }

    public class var general: NSPasteboard { fatalError() }
    @discardableResult public func clearContents() -> Int { fatalError() }
    @discardableResult public func setString(_ string: String, forType dataType: PasteboardType) -> Bool {
        fatalError()
    }
}
