// swift-tools-version: 6.2
// Test support: declarations of a framework of Apple, for builds and tests on Linux.
import PackageDescription

let package = Package(
    name: "FoundationModelsStandIn",
    platforms: [.macOS(.v15), .iOS(.v18), .visionOS(.v2)],
    products: [.library(name: "FoundationModelsStandIn", targets: ["FoundationModelsStandIn"])],
    dependencies: [.package(path: "../../domain/ChappieCore")],
    targets: [
        .target(name: "FoundationModelsStandIn", dependencies: ["ChappieCore"])
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
