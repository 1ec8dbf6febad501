// swift-tools-version: 6.2
// bench measures what the WebSocket codec does per byte, in memory. Release only, with the package's internals visible:
//   swift run -c release -Xswiftc -enable-testing --package-path Tests/Bench bench
import PackageDescription

let package = Package(
    name: "bench",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(path: "../../Packages/ChappieCore"),
        .package(path: "../../Packages/ChappieWebSocket"),
    ],
    targets: [
        .executableTarget(name: "bench", dependencies: ["ChappieCore", "ChappieWebSocket"])
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
