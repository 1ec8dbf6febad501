// swift-tools-version: 6.2
// libqrencode, opened at run time.
import PackageDescription

let package = Package(
    name: "CQRencode",
    platforms: [.macOS(.v15), .iOS(.v18)],
    products: [.library(name: "CQRencode", targets: ["CQRencode"])],
    targets: [
        .target(name: "CQRencode")
    ],
    swiftLanguageModes: [.v6],
    cLanguageStandard: .c11
)
