// swift-tools-version: 6.2
// Tools: a ChatGPT backend in memory, and the same behind sockets.
import PackageDescription

let package = Package(
    name: "ChappieSimulator",
    platforms: [.macOS(.v15), .iOS(.v18), .visionOS(.v2)],
    products: [
        .library(name: "ChappieSimulator", targets: ["ChappieSimulator"]),
        .library(name: "ChappieSimulatorServer", targets: ["ChappieSimulatorServer"]),
    ],
    dependencies: [
        .package(path: "../../domain/ChappieCore"),
        .package(path: "../../adapters/CZstd"),
        .package(path: "../../adapters/CZlib"),
        .package(url: "https://github.com/apple/swift-http-types", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
    ],
    targets: [
        .target(
            name: "ChappieSimulator",
            dependencies: [
                "ChappieCore",
                .byName(name: "CZstd", condition: .when(platforms: [.linux])),
                .product(name: "HTTPTypes", package: "swift-http-types"),
            ]),
        .target(
            name: "ChappieSimulatorServer",
            dependencies: [
                "ChappieCore",
                "ChappieSimulator",
                "CZlib",
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOEmbedded", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOWebSocket", package: "swift-nio"),
            ]),
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
