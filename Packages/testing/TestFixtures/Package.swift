// swift-tools-version: 6.2
// Test support: the real programs, sockets and files that our own tests put a package in front of.
import PackageDescription

let package = Package(
    name: "TestFixtures",
    platforms: [.macOS(.v15), .iOS(.v18), .visionOS(.v2)],
    products: [.library(name: "TestFixtures", targets: ["TestFixtures"])],
    dependencies: [
        .package(path: "../../domain/ChappieCore"),
        .package(path: "../../adapters/ChappieFiles"),
        .package(url: "https://github.com/apple/swift-system", from: "1.8.1"),
    ],
    targets: [
        .target(
            name: "TestFixtures",
            dependencies: [
                "ChappieCore",
                "ChappieFiles",
                .product(name: "SystemPackage", package: "swift-system"),
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
