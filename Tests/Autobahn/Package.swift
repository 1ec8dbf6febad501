// swift-tools-version: 6.2
// The client of the Autobahn test suite: run it with `Scripts/conformance autobahn`.
import PackageDescription

let package = Package(
    name: "autobahn",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(path: "../../Packages/ChappieCore"),
        .package(path: "../../Packages/ChappieWebSocket"),
        .package(url: "https://github.com/apple/swift-http-types", from: "1.8.0"),
    ],
    targets: [
        .executableTarget(
            name: "autobahn",
            dependencies: [
                "ChappieCore",
                "ChappieWebSocket",
                .product(name: "HTTPTypes", package: "swift-http-types"),
            ])
    ],
    swiftLanguageModes: [.v6]
)

for target in package.targets {
    target.swiftSettings = [
        .enableUpcomingFeature("ExistentialAny"),
        .enableUpcomingFeature("InternalImportsByDefault"),
        .enableUpcomingFeature("MemberImportVisibility"),
        .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
    ]
}
