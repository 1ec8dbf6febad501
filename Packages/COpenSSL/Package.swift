// swift-tools-version: 6.2
// libcrypto's EVP interface, imported as it is.
import PackageDescription

let package = Package(
    name: "COpenSSL",
    platforms: [.macOS(.v15), .iOS(.v18)],
    products: [.library(name: "COpenSSL", targets: ["COpenSSL"])],
    targets: [
        .target(name: "COpenSSL")
    ],
    swiftLanguageModes: [.v6],
    cLanguageStandard: .c11
)
