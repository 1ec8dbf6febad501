// swift-tools-version: 6.2
// Forms of threads: exports, and histories of other programs.
import PackageDescription

let package = Package(
    name: "ChappieThreadForms",
    platforms: [.macOS(.v15), .iOS(.v18), .visionOS(.v2)],
    products: [.library(name: "ChappieThreadForms", targets: ["ChappieThreadForms"])],
    dependencies: [
        .package(path: "../../domain/ChappieCore"),
        .package(path: "../../application/ChappieRuntime"),
        .package(path: "../../adapters/ChappieFiles"),
        .package(path: "../ChappieMarkdown"),
        .package(path: "../../adapters/ChappieSQLite"),
        .package(path: "../../adapters/CZlib"),
        .package(path: "../../adapters/CZstd"),
    ],
    targets: [
        .target(
            name: "ChappieThreadForms",
            dependencies: [
                "ChappieCore",
                "ChappieRuntime",
                "ChappieFiles",
                "ChappieMarkdown",
                "ChappieSQLite",
                "CZlib",
                .byName(name: "CZstd", condition: .when(platforms: [.linux])),
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
