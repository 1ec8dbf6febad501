/// Who the program says it is: the OAuth client and the honest name it travels under.
public struct ChappieRegistration: Sendable, Hashable {
    /// The OAuth client id that device sign-in, exchange, refresh and revocation carry.
    public var clientID: String
    /// The value of the `originator` header: a short lower-case name of the program itself.
    public var originator: String
    /// The value of the `user-agent` header.
    public var userAgent: String
    /// An id of this installation for backends that ask for one. Default `nil`: none is made and none is sent.
    public var hostID: String?

    /// - Parameters:
    ///   - clientID: default is the public client of the ChatGPT device flow.
    ///   - originator: default `chappie`. Never another program's name.
    ///   - userAgent: default ``defaultUserAgent``. Characters that no header may hold are replaced by `_`.
    public init(
        clientID: String = "app_EMoamEEZ73f0CkXaXp7hrann", originator: String = "chappie",
        userAgent: String = ChappieRegistration.defaultUserAgent, hostID: String? = nil
    ) {
        self.clientID = clientID
        self.originator = Self.headerSafe(originator)
        self.userAgent = Self.headerSafe(userAgent)
        self.hostID = hostID
    }

    /// `chappie/VERSION (SYSTEM; ARCHITECTURE)`.
    public static let defaultUserAgent = "chappie/\(ChappieVersion.current) (\(system); \(architecture))"

    private static func headerSafe(_ value: String) -> String {
        String(String.UnicodeScalarView(value.unicodeScalars.map { (0x20...0x7E).contains($0.value) ? $0 : "_" }))
    }

    #if os(Linux)
        private static let system = "Linux"
    #elseif os(macOS)
        private static let system = "macOS"
    #else
        private static let system = "Apple"
    #endif

    #if arch(x86_64)
        private static let architecture = "x86_64"
    #elseif arch(arm64)
        private static let architecture = "aarch64"
    #else
        private static let architecture = "unknown"
    #endif
}
