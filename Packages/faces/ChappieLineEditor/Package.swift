// swift-tools-version: 6.2
// A line editor for a terminal, over libedit.
import PackageDescription

let package = Package(
    name: "ChappieLineEditor",
    platforms: [.macOS(.v15), .iOS(.v18)],
    products: [.library(name: "ChappieLineEditor", targets: ["ChappieLineEditor"])],
    targets: [
        .target(name: "CEditline"),
        .target(
            name: "ChappieLineEditor",
            dependencies: [
                "CEditline"
            ]),
    ],
    swiftLanguageModes: [.v6],
    cLanguageStandard: .c11
)

let cModules: Set<String> = ["CEditline"]
for target in package.targets where !cModules.contains(target.name) {
    target.swiftSettings = [
        .enableUpcomingFeature("ExistentialAny"),
        .enableUpcomingFeature("InternalImportsByDefault"),
        .enableUpcomingFeature("MemberImportVisibility"),
        .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
    ]
    if Context.environment["CHAPPIE_STRICT"] == "1" { target.swiftSettings?.append(.treatAllWarnings(as: .error)) }
}
