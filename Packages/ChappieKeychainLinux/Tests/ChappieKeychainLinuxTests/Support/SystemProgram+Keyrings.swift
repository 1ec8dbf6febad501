import TestFixtures

extension SystemProgram {
    static let keyringDaemon = SystemProgram("gnome-keyring-daemon", packages: "gnome-keyring")
    static let secretTool = SystemProgram("secret-tool", packages: "libsecret-tools")
    static let keePassXC = SystemProgram("keepassxc", packages: "keepassxc")
    static let keePassXCTool = SystemProgram("keepassxc-cli", packages: "keepassxc")
}
