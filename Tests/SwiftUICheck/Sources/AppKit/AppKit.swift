// Declarations only. Signatures: developer.apple.com/documentation/appkit/nspasteboard, …/nspasteboard/general,
// …/nspasteboard/preparefornewcontents(with:), …/nspasteboard/contentsoptions, …/nspasteboard/setstring(_:fortype:), …/nspasteboard/pasteboardtype.
public class NSPasteboard {
    public struct PasteboardType: RawRepresentable, Hashable, Sendable {
        public let rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }
        public static let string = PasteboardType(rawValue: "")
    }

    public struct ContentsOptions: OptionSet, Sendable {
        public let rawValue: UInt
        public init(rawValue: UInt) { self.rawValue = rawValue }
        public static let currentHostOnly = ContentsOptions(rawValue: 1)
    }

    public class var general: NSPasteboard { fatalError() }
    @discardableResult public func prepareForNewContents(with options: ContentsOptions = []) -> Int { fatalError() }
    @discardableResult public func setString(_ string: String, forType dataType: PasteboardType) -> Bool {
        fatalError()
    }
}
