// swift-tools-version: 6.2
// bench measures in memory what the WebSocket codec does per byte and the client per tool call,
// and in files what a thread store costs. Release only, with the package's internals visible:
//   swift run -c release -Xswiftc -enable-testing --package-path Tests/Bench bench
import PackageDescription

let package = Package(
    name: "bench",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(path: "../../Packages/domain/ChappieCore"),
        .package(path: "../../Packages/domain/ChappieAuth"),
        .package(path: "../../Packages/application/ChappieClient"),
        .package(path: "../../Packages/adapters/ChappieWebSocket"),
        .package(path: "../../Packages/adapters/ChappieCrypto"),
        .package(path: "../../Packages/application/ChappieRuntime"),
        .package(path: "../../Packages/adapters/ChappieThreadsSQLite"),
        .package(path: "../../Packages/facade/ChappieSDK"),
        .package(url: "https://github.com/apple/swift-http-types", from: "1.8.0"),
    ],
    targets: [
        .executableTarget(
            name: "bench",
            dependencies: [
                "ChappieCore", "ChappieAuth", "ChappieClient", "ChappieWebSocket", "ChappieCrypto", "ChappieRuntime",
                "ChappieThreadsSQLite", "ChappieSDK",
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
