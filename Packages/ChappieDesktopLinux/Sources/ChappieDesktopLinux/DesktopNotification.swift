/// One notification, as two programs want to be told it.
struct DesktopNotification: Hashable {
    let applicationName: String
    let title: String
    /// With markup characters escaped: servers that understand markup show `&lt;` as `<`, and text from outside must
    /// not become a link. A server without markup shows the escape, which is the lesser evil.
    let body: String

    init(applicationName: String, title: String, body: String) {
        self.applicationName = Self.plain(applicationName, limit: 256)
        self.title = Self.plain(title, limit: 256)
        self.body = Self.escaped(Self.plain(body, limit: 1024))
    }

    /// `Notify` takes the sender, the notification to replace, an icon, title, body, actions, hints, and a time in
    /// milliseconds, -1 for the server's own.
    var busctlArguments: [String] {
        [
            "--user", "--timeout=2", "--quiet", "call", "--", Self.service, Self.path, Self.service, "Notify",
            "susssasa{sv}i", applicationName, "0", "", title, body, "0", "0", "-1",
        ]
    }

    /// As ``busctlArguments``, in GVariant's text format.
    var gdbusArguments: [String] {
        [
            "call", "--session", "--timeout", "2", "--dest", Self.service, "--object-path", Self.path, "--method",
            "\(Self.service).Notify", Self.quoted(applicationName), "uint32 0", "''", Self.quoted(title),
            Self.quoted(body), "@as []", "@a{sv} {}", "int32 -1",
        ]
    }

    /// One line break at a time is fine in a notification; other control characters become spaces.
    static func plain(_ text: String, limit: Int) -> String {
        var plain = String.UnicodeScalarView()
        for scalar in text.prefix(limit).unicodeScalars {
            plain.append(scalar.properties.generalCategory == .control && scalar != "\n" ? " " : scalar)
        }
        return String(plain)
    }

    private static let service = "org.freedesktop.Notifications"
    private static let path = "/org/freedesktop/Notifications"

    private static func escaped(_ text: String) -> String {
        text.reduce(into: "") { escaped, character in
            switch character {
            case "&": escaped += "&amp;"
            case "<": escaped += "&lt;"
            case ">": escaped += "&gt;"
            default: escaped.append(character)
            }
        }
    }

    /// A string in GVariant's text format; unquoted, gdbus would read `true` or `[]` as something else.
    private static func quoted(_ text: String) -> String {
        let inside = text.reduce(into: "") { inside, character in
            switch character {
            case "'", "\\": inside += "\\\(character)"
            case "\n": inside += "\\n"
            default: inside.append(character)
            }
        }
        return "'\(inside)'"
    }
}
