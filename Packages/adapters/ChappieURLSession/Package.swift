// swift-tools-version: 6.2
// Adapters: HTTPTransport over Foundation's URLSession, and WebSockets over Network.framework, for Apple's platforms.
import PackageDescription

let package = Package(
    name: "ChappieURLSession",
    platforms: [.macOS(.v15), .iOS(.v18), .visionOS(.v2)],
    products: [.library(name: "ChappieURLSession", targets: ["ChappieURLSession"])],
    dependencies: [
        .package(path: "../../domain/ChappieCore"),
        .package(path: "../ChappieFiles"),
        .package(path: "../ChappieWebSocket"),
        .package(url: "https://github.com/apple/swift-http-types", from: "1.8.0"),
    ],
    targets: [
        .target(
            name: "ChappieURLSession",
            dependencies: [
                "ChappieCore",
                "ChappieFiles",
                "ChappieWebSocket",
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
