// swift-tools-version: 6.2
// libcmark-gfm and its extensions: tables, strikethrough, autolinks, task lists.
import PackageDescription

let package = Package(
    name: "CCMark",
    platforms: [.macOS(.v15), .iOS(.v18)],
    products: [.library(name: "CCMark", targets: ["CCMark"])],
    targets: [
        .target(name: "CCMark")
    ],
    swiftLanguageModes: [.v6],
    cLanguageStandard: .c11
)
