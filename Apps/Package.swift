// swift-tools-version: 6.2
// The command line and the simulator's program. They are in one package, because both have a `main` in C and the simulator's options.
// The package is in this folder: SwiftPM names a package by its folder, and one in Apps/chappie over a clone in a folder `chappie`
// would depend on itself.
import PackageDescription

let argumentParser = Target.Dependency.product(name: "ArgumentParser", package: "swift-argument-parser")
let httpTypes = Target.Dependency.product(name: "HTTPTypes", package: "swift-http-types")
let system = Target.Dependency.product(name: "SystemPackage", package: "swift-system")

func modules(_ names: String...) -> [Target.Dependency] {
    names.map { .product(name: $0, package: "chappie") }
}

/// The targets of the root's internal product.
let internals = modules("_ChappieInternals")

let package = Package(
    name: "chappie-programs",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(name: "chappie", path: ".."),
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/apple/swift-http-types", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-system", from: "1.8.1"),
    ],
    targets: [
        .target(name: "CMain", path: "chappie/Sources/CMain"),
        .target(name: "CQRencode", path: "chappie/Sources/CQRencode"),
        .target(name: "CEditline", path: "chappie/Sources/CEditline"),
        .target(
            name: "ChappieLineEditor", dependencies: ["CEditline"], path: "chappie/Sources/ChappieLineEditor"),
        .executableTarget(
            name: "chappie",
            dependencies: modules(
                "ChappieSDK", "ChappieCore", "ChappieJSONSchema", "ChappieAuth", "ChappieClient", "ChappieFiles",
                "ChappieLoopback", "ChappieHTTP", "ChappieWebSocket", "ChappieKeychainLinux", "ChappieCrypto",
                "ChappieDesktopLinux", "ChappieMCP", "ChappieProgramTools", "ChappieRuntime", "ChappieThreadForms",
                "ChappieThreadsSQLite", "ChappieSignInUI", "ChappieMarkdown", "ChappieSimulator")
                + internals + [
                    "CMain", "CQRencode", "ChappieLineEditor", "ChappieSimulatorOptions", httpTypes, argumentParser,
                    system,
                ],
            path: "chappie/Sources/chappie"),
        // The program that `chappie simulator` becomes. Only it links swift-nio.
        .target(
            name: "ChappieSimulatorOptions", dependencies: modules("ChappieSimulator") + [argumentParser],
            path: "chappie-simulator/Sources/ChappieSimulatorOptions"),
        .executableTarget(
            name: "chappie-simulator",
            dependencies: modules("ChappieCore", "ChappieFiles", "ChappieSimulatorServer")
                + ["CMain", "ChappieSimulatorOptions", argumentParser, system],
            path: "chappie-simulator/Sources/chappie-simulator"),
        .testTarget(
            name: "ChappieLineEditorTests", dependencies: ["ChappieLineEditor"],
            path: "chappie/Tests/ChappieLineEditorTests"),
        .testTarget(
            name: "chappieTests",
            dependencies: modules(
                "ChappieSDK", "ChappieCore", "ChappieJSONSchema", "ChappieAuth", "ChappieFiles", "ChappieMarkdown",
                "ChappieRuntime", "ChappieThreadForms", "ChappieThreadsSQLite", "ChappieMCP", "ChappieProgramTools",
                "ChappieSimulator")
                + internals + ["chappie", "CQRencode", argumentParser, system],
            path: "chappie/Tests/chappieTests"),
    ],
    swiftLanguageModes: [.v6],
    cLanguageStandard: .c11
)

for target in package.targets where !["CMain", "CQRencode", "CEditline"].contains(target.name) {
    target.swiftSettings = [
        .enableUpcomingFeature("ExistentialAny"),
        .enableUpcomingFeature("InternalImportsByDefault"),
        .enableUpcomingFeature("MemberImportVisibility"),
        .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
    ]
    if Context.environment["CHAPPIE_STRICT"] == "1" { target.swiftSettings?.append(.treatAllWarnings(as: .error)) }
}
