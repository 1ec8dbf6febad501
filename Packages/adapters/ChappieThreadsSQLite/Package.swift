// swift-tools-version: 6.2
// Adapter: ChappieThreadStore in a file, over SQLite.
import PackageDescription

// As in the root manifest.
#if os(macOS)
    let privacyResources: [Resource] = [.copy("PrivacyInfo.xcprivacy")]
    let privacyExcluded: [String] = []
#else
    let privacyResources: [Resource] = []
    let privacyExcluded = ["PrivacyInfo.xcprivacy"]
#endif

let package = Package(
    name: "ChappieThreadsSQLite",
    platforms: [.macOS(.v15), .iOS(.v18), .visionOS(.v2)],
    products: [.library(name: "ChappieThreadsSQLite", targets: ["ChappieThreadsSQLite"])],
    dependencies: [
        .package(path: "../../domain/ChappieCore"),
        .package(path: "../../domain/ChappieAuth"),
        .package(path: "../../application/ChappieRuntime"),
        .package(path: "../ChappieFiles"),
        .package(path: "../ChappieCrypto"),
        .package(path: "../ChappieSQLite"),
        .package(url: "https://github.com/apple/swift-system", from: "1.8.1"),
    ],
    targets: [
        .target(
            name: "ChappieThreadsSQLite",
            dependencies: [
                "ChappieCore",
                "ChappieAuth",
                "ChappieRuntime",
                "ChappieFiles",
                "ChappieCrypto",
                "ChappieSQLite",
                .product(name: "CSQLite", package: "ChappieSQLite"),
                .product(name: "SystemPackage", package: "swift-system"),
            ],
            exclude: privacyExcluded, resources: privacyResources),
        .executableTarget(
            name: "ThreadStoreWriter",
            dependencies: [
                "ChappieCore",
                "ChappieAuth",
                "ChappieRuntime",
                "ChappieCrypto",
                "ChappieThreadsSQLite",
            ],
            path: "Tests/ThreadStoreWriter"),
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
