// swift-tools-version: 6.2
// Shared by the adapters that run programs: it starts a program, talks to it through pipes, and ends it.
import PackageDescription

let package = Package(
    name: "ChappieProcess",
    platforms: [.macOS(.v15), .iOS(.v18), .visionOS(.v2)],
    products: [.library(name: "ChappieProcess", targets: ["ChappieProcess"])],
    dependencies: [
        .package(path: "../../domain/ChappieCore"),
        .package(path: "../ChappieFiles"),
        .package(url: "https://github.com/apple/swift-system", from: "1.8.1"),
    ],
    targets: [
        .target(name: "CSpawn"),
        .target(
            name: "ChappieProcess",
            dependencies: [
                "ChappieCore",
                "ChappieFiles",
                "CSpawn",
                .product(name: "SystemPackage", package: "swift-system"),
            ]),
    ],
    swiftLanguageModes: [.v6],
    cLanguageStandard: .c11
)

let cModules: Set<String> = ["CSpawn"]
for target in package.targets where !cModules.contains(target.name) {
    target.swiftSettings = [
        .enableUpcomingFeature("ExistentialAny"),
        .enableUpcomingFeature("InternalImportsByDefault"),
        .enableUpcomingFeature("MemberImportVisibility"),
        .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
    ]
    if Context.environment["CHAPPIE_STRICT"] == "1" { target.swiftSettings?.append(.treatAllWarnings(as: .error)) }
}
