// swift-tools-version: 6.2
// Tests ChappieObservability with the trait that brings its packages. It is a separate package, because no other build may
// resolve or compile swift-metrics and swift-distributed-tracing.
import PackageDescription

let package = Package(
    name: "observability",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(name: "chappie", path: "../..", traits: ["Observability"]),
        .package(url: "https://github.com/apple/swift-metrics", from: "2.13.0"),
        .package(url: "https://github.com/apple/swift-distributed-tracing", from: "1.7.3"),
    ],
    targets: [
        .testTarget(
            name: "ObservabilityTests",
            dependencies: [
                .product(name: "ChappieAuth", package: "chappie"),
                .product(name: "ChappieClient", package: "chappie"),
                .product(name: "ChappieCore", package: "chappie"),
                .product(name: "ChappieObservability", package: "chappie"),
                .product(name: "ChappieRuntime", package: "chappie"),
                .product(name: "MetricsTestKit", package: "swift-metrics"),
                .product(name: "Metrics", package: "swift-metrics"),
                .product(name: "InMemoryTracing", package: "swift-distributed-tracing"),
                .product(name: "Tracing", package: "swift-distributed-tracing"),
            ])
    ],
    swiftLanguageModes: [.v6]
)

let strict: [SwiftSetting] = Context.environment["CHAPPIE_STRICT"] == "1" ? [.treatAllWarnings(as: .error)] : []
for target in package.targets {
    target.swiftSettings =
        [
            .enableUpcomingFeature("ExistentialAny"), .enableUpcomingFeature("InternalImportsByDefault"),
            .enableUpcomingFeature("MemberImportVisibility"),
            .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
        ] + strict
}
