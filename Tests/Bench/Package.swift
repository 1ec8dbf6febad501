// swift-tools-version: 6.2
// bench measures what the WebSocket codec does per byte, in memory. Release only, with the package's internals visible:
//   swift run -c release -Xswiftc -enable-testing --package-path Tests/Bench bench
// load holds a thousand WebSockets open in one process (Scripts/lib/load.py runs it against a simulator).
import PackageDescription

let package = Package(
    name: "bench",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(path: "../../Packages/ChappieCore"),
        .package(path: "../../Packages/ChappieWebSocket"),
        .package(url: "https://github.com/apple/swift-http-types", from: "1.8.0"),
    ],
    targets: [
        .executableTarget(name: "bench", dependencies: ["ChappieCore", "ChappieWebSocket"]),
        .executableTarget(
            name: "load",
            dependencies: [
                "ChappieCore", "ChappieWebSocket", .product(name: "HTTPTypes", package: "swift-http-types"),
            ]),
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
