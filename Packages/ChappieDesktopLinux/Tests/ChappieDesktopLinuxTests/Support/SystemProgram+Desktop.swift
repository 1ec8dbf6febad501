import TestFixtures

extension SystemProgram {
    static let xclip = SystemProgram("xclip", packages: "xclip")
    static let xvfb = SystemProgram("Xvfb", packages: "xvfb")
    static let busctl = SystemProgram("busctl", packages: "systemd")
}
