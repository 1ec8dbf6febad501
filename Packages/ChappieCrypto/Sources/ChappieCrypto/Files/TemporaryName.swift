/// What a file is called while it is being written: `.`, 32 random hexadecimal digits, `.writing`.
enum TemporaryName {
    static let randomCount = 16
    private static let suffix = ".writing"

    static func make(from random: [UInt8]) -> String { "." + Hexadecimal.text(of: random) + suffix }

    static func isOne(_ name: String) -> Bool {
        name.utf8.count == 1 + 2 * randomCount + suffix.utf8.count && name.hasPrefix(".") && name.hasSuffix(suffix)
            && Hexadecimal.isText(name.dropFirst().prefix(2 * randomCount))
    }
}
