// swift-tools-version: 6.2
// libsqlite3, imported.
import PackageDescription

let package = Package(
    name: "CSQLite",
    platforms: [.macOS(.v15), .iOS(.v18)],
    products: [.library(name: "CSQLite", targets: ["CSQLite"])],
    targets: [
        .target(name: "CSQLite")
    ],
    swiftLanguageModes: [.v6],
    cLanguageStandard: .c11
)
