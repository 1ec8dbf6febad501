// swift-tools-version: 6.2
// What the two network adapters share: libcurl's event loop, trust, proxies, and the meaning of its failures.
import PackageDescription

let package = Package(
    name: "ChappieCurl",
    platforms: [.macOS(.v15), .iOS(.v18), .visionOS(.v2)],
    products: [.library(name: "ChappieCurl", targets: ["ChappieCurl"])],
    dependencies: [
        .package(path: "../../domain/ChappieCore"),
        .package(url: "https://github.com/apple/swift-collections", from: "1.6.0"),
    ],
    targets: [
        .target(name: "CCurl"),
        .target(
            name: "ChappieCurl",
            dependencies: [
                "ChappieCore",
                "CCurl",
                .product(name: "HeapModule", package: "swift-collections"),
            ]),
    ],
    swiftLanguageModes: [.v6],
    cLanguageStandard: .c11
)

let cModules: Set<String> = ["CCurl"]
for target in package.targets where !cModules.contains(target.name) {
    target.swiftSettings = [
        .enableUpcomingFeature("ExistentialAny"),
        .enableUpcomingFeature("InternalImportsByDefault"),
        .enableUpcomingFeature("MemberImportVisibility"),
        .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
    ]
    if Context.environment["CHAPPIE_STRICT"] == "1" { target.swiftSettings?.append(.treatAllWarnings(as: .error)) }
}
