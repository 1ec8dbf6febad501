// swift-tools-version: 6.2
// Facade: a model for Apple's Foundation Models sessions. On Linux it is built over declarations, for tests only.
import PackageDescription

// As in the root manifest.
#if os(macOS)
    let products: [Product] = [.library(name: "ChappieFoundationModels", targets: ["ChappieFoundationModels"])]
#else
    let products: [Product] = []
#endif

let package = Package(
    name: "ChappieFoundationModels",
    platforms: [.macOS(.v15), .iOS(.v18), .visionOS(.v2)],
    products: products,
    dependencies: [
        .package(path: "../../domain/ChappieCore"),
        .package(path: "../../domain/ChappieJSONSchema"),
        .package(path: "../../domain/ChappieAuth"),
        .package(path: "../../application/ChappieClient"),
        .package(path: "../../facade/ChappieSDK"),
        .package(path: "../../testing/FoundationModelsStandIn"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
    ],
    targets: [
        .target(
            name: "ChappieFoundationModels",
            dependencies: [
                "ChappieCore",
                "ChappieJSONSchema",
                "ChappieAuth",
                "ChappieClient",
                "ChappieSDK",
                .product(name: "Logging", package: "swift-log"),
                .byName(name: "FoundationModelsStandIn", condition: .when(platforms: [.linux])),
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
