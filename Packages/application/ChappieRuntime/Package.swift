// swift-tools-version: 6.2
// Application: conversations that outlive the process.
import PackageDescription

let package = Package(
    name: "ChappieRuntime",
    platforms: [.macOS(.v15), .iOS(.v18), .visionOS(.v2)],
    products: [.library(name: "ChappieRuntime", targets: ["ChappieRuntime"])],
    dependencies: [
        .package(path: "../../domain/ChappieCore"),
        .package(path: "../../domain/ChappieJSONSchema"),
        .package(path: "../../domain/ChappieAuth"),
        .package(path: "../ChappieClient"),
    ],
    targets: [
        .target(
            name: "ChappieRuntime",
            dependencies: [
                "ChappieCore",
                "ChappieJSONSchema",
                "ChappieAuth",
                "ChappieClient",
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
