// swift-tools-version: 6.2
// A connection to an SQLite database: what our own adapters and readers share.
import PackageDescription

let package = Package(
    name: "ChappieSQLite",
    platforms: [.macOS(.v15), .iOS(.v18), .visionOS(.v2)],
    products: [
        .library(name: "ChappieSQLite", targets: ["ChappieSQLite"]),
        .library(name: "CSQLite", targets: ["CSQLite"]),
    ],
    targets: [
        .target(name: "CSQLite"),
        .target(
            name: "ChappieSQLite",
            dependencies: [
                "CSQLite"
            ]),
    ],
    swiftLanguageModes: [.v6],
    cLanguageStandard: .c11
)

let cModules: Set<String> = ["CSQLite"]
for target in package.targets where !cModules.contains(target.name) {
    target.swiftSettings = [
        .enableUpcomingFeature("ExistentialAny"),
        .enableUpcomingFeature("InternalImportsByDefault"),
        .enableUpcomingFeature("MemberImportVisibility"),
        .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
    ]
    if Context.environment["CHAPPIE_STRICT"] == "1" { target.swiftSettings?.append(.treatAllWarnings(as: .error)) }
}
