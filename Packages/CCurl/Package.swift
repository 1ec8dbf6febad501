// swift-tools-version: 6.2
// libcurl behind non-variadic shims; nothing else in the tree includes curl.h.
import PackageDescription

let package = Package(
    name: "CCurl",
    platforms: [.macOS(.v15), .iOS(.v18)],
    products: [.library(name: "CCurl", targets: ["CCurl"])],
    targets: [
        .target(name: "CCurl")
    ],
    swiftLanguageModes: [.v6],
    cLanguageStandard: .c11
)
