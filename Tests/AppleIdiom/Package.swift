// swift-tools-version: 6.2
// Compiles the libraries without Linux headers as an Apple platform sees them: with full Foundation, and with a module
// called Combine, for which OpenCombine stands in. Test: Tests/Acceptance/test_packages.py.
import PackageDescription

let settings: [SwiftSetting] = [
    .enableUpcomingFeature("ExistentialAny"), .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"), .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
    .define("CHAPPIE_FULL_FOUNDATION"), .treatAllWarnings(as: .error),
]
let httpTypes = Target.Dependency.product(name: "HTTPTypes", package: "swift-http-types")

let logging = Target.Dependency.product(name: "Logging", package: "swift-log")

let package = Package(
    name: "apple-idiom",
    dependencies: [
        .package(url: "https://github.com/apple/swift-http-types", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/OpenCombine/OpenCombine", from: "0.14.0"),
    ],
    targets: [
        .target(name: "Combine", dependencies: ["OpenCombine"]),
        // Links to the packages' own sources.
        .target(name: "ChappieCore", dependencies: [httpTypes], swiftSettings: settings),
        .target(
            name: "ChappieAuth", dependencies: ["ChappieCore", "Combine", httpTypes, logging], swiftSettings: settings),
        .target(
            name: "ChappieClient", dependencies: ["ChappieCore", "ChappieAuth", "Combine", httpTypes, logging],
            swiftSettings: settings),
        .target(
            name: "ChappieSignInUI", dependencies: ["ChappieCore", "ChappieAuth", "Combine"], swiftSettings: settings),
        .target(
            name: "Observer", dependencies: ["ChappieAuth", "ChappieSignInUI", "Combine"], swiftSettings: settings),
    ],
    swiftLanguageModes: [.v6]
)
