// swift-tools-version: 6.2
// Adapter: WebSocketTransport, our own RFC 6455 codec over libcurl's connections or any byte stream.
import PackageDescription

let package = Package(
    name: "ChappieWebSocket",
    platforms: [.macOS(.v15), .iOS(.v18), .visionOS(.v2)],
    products: [.library(name: "ChappieWebSocket", targets: ["ChappieWebSocket"])],
    dependencies: [
        .package(path: "../../domain/ChappieCore"),
        .package(path: "../ChappieCurl"),
        .package(path: "../CZlib"),
        .package(url: "https://github.com/apple/swift-http-types", from: "1.8.0"),
    ],
    targets: [
        .target(
            name: "ChappieWebSocket",
            dependencies: [
                "ChappieCore",
                .byName(name: "ChappieCurl", condition: .when(platforms: [.linux])),
                "CZlib",
                .product(name: "HTTPTypes", package: "swift-http-types"),
            ])
    ],
    swiftLanguageModes: [.v6],
    cLanguageStandard: .c11
)

let cModules: Set<String> = []
for target in package.targets where !cModules.contains(target.name) {
    target.swiftSettings = [
        .enableUpcomingFeature("ExistentialAny"),
        .enableUpcomingFeature("InternalImportsByDefault"),
        .enableUpcomingFeature("MemberImportVisibility"),
        .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
    ]
    if Context.environment["CHAPPIE_STRICT"] == "1" { target.swiftSettings?.append(.treatAllWarnings(as: .error)) }
}
