// swift-tools-version: 6.2
// Domain: JSON Schema, compiled, checked and derived from types.
import PackageDescription

let package = Package(
    name: "ChappieJSONSchema",
    platforms: [.macOS(.v15), .iOS(.v18), .visionOS(.v2)],
    products: [.library(name: "ChappieJSONSchema", targets: ["ChappieJSONSchema"])],
    dependencies: [
        .package(path: "../ChappieCore")
    ],
    targets: [
        .target(
            name: "ChappieJSONSchema",
            dependencies: [
                "ChappieCore"
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
