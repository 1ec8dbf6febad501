// swift-tools-version: 6.2
// zlib, imported; its set-up macros as functions.
import PackageDescription

let package = Package(
    name: "CZlib",
    platforms: [.macOS(.v15), .iOS(.v18), .visionOS(.v2)],
    products: [.library(name: "CZlib", targets: ["CZlib"])],
    targets: [
        .target(name: "CZlib")
    ],
    swiftLanguageModes: [.v6],
    cLanguageStandard: .c11
)
