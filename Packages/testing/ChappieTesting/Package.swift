// swift-tools-version: 6.2
// Testing: in-memory adapters, scripted transports, manual clock, contracts.
import PackageDescription

let package = Package(
    name: "ChappieTesting",
    platforms: [.macOS(.v15), .iOS(.v18), .visionOS(.v2)],
    products: [.library(name: "ChappieTesting", targets: ["ChappieSDKTesting", "ChappieTesting"])],
    dependencies: [
        .package(path: "../../domain/ChappieCore"),
        .package(path: "../../domain/ChappieAuth"),
        .package(path: "../../application/ChappieClient"),
        .package(path: "../../application/ChappieRuntime"),
        .package(path: "../../adapters/ChappieKeychainApple"),
        .package(path: "../ChappieSimulator"),
        .package(url: "https://github.com/apple/swift-http-types", from: "1.8.0"),
    ],
    targets: [
        .target(
            name: "ChappieTesting",
            dependencies: [
                "ChappieCore",
                "ChappieAuth",
                "ChappieClient",
                "ChappieRuntime",
                "ChappieKeychainApple",
                "ChappieSimulator",
                .product(name: "ChappieSimulatorServer", package: "ChappieSimulator"),
                .product(name: "HTTPTypes", package: "swift-http-types"),
            ]),
        .target(
            name: "ChappieSDKTesting",
            dependencies: [
                "ChappieTesting", .product(name: "ChappieSimulatorServer", package: "ChappieSimulator"),
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
