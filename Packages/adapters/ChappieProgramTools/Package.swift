// swift-tools-version: 6.2
// Adapter: programs as tools and as tool servers, and the manifest that names them.
import PackageDescription

let package = Package(
    name: "ChappieProgramTools",
    platforms: [.macOS(.v15), .iOS(.v18), .visionOS(.v2)],
    products: [.library(name: "ChappieProgramTools", targets: ["ChappieProgramTools"])],
    dependencies: [
        .package(path: "../../domain/ChappieCore"),
        .package(path: "../../domain/ChappieJSONSchema"),
        .package(path: "../../application/ChappieClient"),
        .package(path: "../ChappieProcess"),
        .package(path: "../ChappieMCP"),
    ],
    targets: [
        .target(
            name: "ChappieProgramTools",
            dependencies: [
                "ChappieCore",
                "ChappieJSONSchema",
                "ChappieClient",
                "ChappieProcess",
                "ChappieMCP",
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
