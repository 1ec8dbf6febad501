// swift-tools-version: 6.2
// libzstd, imported.
import PackageDescription

let package = Package(
    name: "CZstd",
    platforms: [.macOS(.v15), .iOS(.v18), .visionOS(.v2)],
    products: [.library(name: "CZstd", targets: ["CZstd"])],
    targets: [
        .target(name: "CZstd")
    ],
    swiftLanguageModes: [.v6],
    cLanguageStandard: .c11
)
