// swift-tools-version: 6.2
// libedit behind plain functions: its setters are variadic.
import PackageDescription

let package = Package(
    name: "CEditline",
    platforms: [.macOS(.v15), .iOS(.v18)],
    products: [.library(name: "CEditline", targets: ["CEditline"])],
    targets: [
        .target(name: "CEditline")
    ],
    swiftLanguageModes: [.v6],
    cLanguageStandard: .c11
)
