// swift-tools-version: 6.2
// Adapter: ChappieObserver over swift-metrics and swift-distributed-tracing. Without the trait, the module has no code for them.
import PackageDescription

let observability = TargetDependencyCondition.when(traits: ["Observability"])

let package = Package(
    name: "ChappieObservability",
    platforms: [.macOS(.v15), .iOS(.v18), .visionOS(.v2)],
    products: [.library(name: "ChappieObservability", targets: ["ChappieObservability"])],
    traits: [.trait(name: "Observability", description: "ChappieObservability with its two packages.")],
    dependencies: [
        .package(path: "../../domain/ChappieCore"),
        .package(path: "../../domain/ChappieAuth"),
        .package(path: "../../application/ChappieClient"),
        .package(path: "../../application/ChappieRuntime"),
        .package(url: "https://github.com/apple/swift-metrics", from: "2.13.0"),
        .package(url: "https://github.com/apple/swift-distributed-tracing", from: "1.7.3"),
    ],
    targets: [
        .target(
            name: "ChappieObservability",
            dependencies: [
                "ChappieCore",
                "ChappieAuth",
                "ChappieClient",
                "ChappieRuntime",
                .product(name: "Metrics", package: "swift-metrics", condition: observability),
                .product(name: "Tracing", package: "swift-distributed-tracing", condition: observability),
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
