// swift-tools-version: 6.2
// Markdown on a terminal, block by block as it streams in: a pure value, over libcmark-gfm.
import PackageDescription

let package = Package(
    name: "ChappieMarkdown",
    platforms: [.macOS(.v15), .iOS(.v18), .visionOS(.v2)],
    products: [.library(name: "ChappieMarkdown", targets: ["ChappieMarkdown"])],
    dependencies: [
        .package(path: "../../domain/ChappieCore")
    ],
    targets: [
        .target(name: "CCMark"),
        .target(
            name: "ChappieMarkdown",
            dependencies: [
                "ChappieCore",
                "CCMark",
            ]),
    ],
    swiftLanguageModes: [.v6],
    cLanguageStandard: .c11
)

let cModules: Set<String> = ["CCMark"]
for target in package.targets where !cModules.contains(target.name) {
    target.swiftSettings = [
        .enableUpcomingFeature("ExistentialAny"),
        .enableUpcomingFeature("InternalImportsByDefault"),
        .enableUpcomingFeature("MemberImportVisibility"),
        .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
    ]
    if Context.environment["CHAPPIE_STRICT"] == "1" { target.swiftSettings?.append(.treatAllWarnings(as: .error)) }
}
