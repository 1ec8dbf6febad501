// swift-tools-version: 6.2
// Adapter: ChappieThreadStore in PostgreSQL, for many machines and many users, over libpq.
import PackageDescription

let package = Package(
    name: "ChappieThreadsPostgres",
    platforms: [.macOS(.v15), .iOS(.v18), .visionOS(.v2)],
    products: [.library(name: "ChappieThreadsPostgres", targets: ["ChappieThreadsPostgres"])],
    dependencies: [
        .package(path: "../../domain/ChappieCore"),
        .package(path: "../../domain/ChappieAuth"),
        .package(path: "../../application/ChappieRuntime"),
    ],
    targets: [
        .target(name: "CPostgres"),
        .target(
            name: "ChappieThreadsPostgres",
            dependencies: [
                "ChappieCore",
                "ChappieAuth",
                "ChappieRuntime",
                "CPostgres",
            ]),
        .executableTarget(
            name: "PostgresThreadWriter",
            dependencies: [
                "ChappieCore",
                "ChappieRuntime",
                "ChappieThreadsPostgres",
            ],
            path: "Tests/PostgresThreadWriter"),
    ],
    swiftLanguageModes: [.v6],
    cLanguageStandard: .c11
)

let cModules: Set<String> = ["CPostgres"]
for target in package.targets where !cModules.contains(target.name) {
    target.swiftSettings = [
        .enableUpcomingFeature("ExistentialAny"),
        .enableUpcomingFeature("InternalImportsByDefault"),
        .enableUpcomingFeature("MemberImportVisibility"),
        .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
    ]
    if Context.environment["CHAPPIE_STRICT"] == "1" { target.swiftSettings?.append(.treatAllWarnings(as: .error)) }
}
