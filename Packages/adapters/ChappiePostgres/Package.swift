// swift-tools-version: 6.2
// Adapters: threads and sign-ins in PostgreSQL, for many machines and many users, over libpq.
import PackageDescription

let package = Package(
    name: "ChappiePostgres",
    platforms: [.macOS(.v15), .iOS(.v18), .visionOS(.v2)],
    products: [
        .library(name: "ChappiePostgres", targets: ["ChappiePostgres"]),
        .library(name: "ChappieThreadsPostgres", targets: ["ChappieThreadsPostgres"]),
        .library(name: "ChappieCredentialsPostgres", targets: ["ChappieCredentialsPostgres"]),
    ],
    dependencies: [
        .package(path: "../../domain/ChappieCore"),
        .package(path: "../../domain/ChappieAuth"),
        .package(path: "../../application/ChappieRuntime"),
        .package(path: "../ChappieCrypto"),
    ],
    targets: [
        .target(name: "CPostgres"),
        .target(
            name: "ChappiePostgres",
            dependencies: [
                "ChappieCore",
                "ChappieAuth",
                "CPostgres",
            ]),
        .target(
            name: "ChappieThreadsPostgres",
            dependencies: [
                "ChappieCore",
                "ChappieRuntime",
                "ChappiePostgres",
            ]),
        .target(
            name: "ChappieCredentialsPostgres",
            dependencies: [
                "ChappieCore",
                "ChappieAuth",
                "ChappieCrypto",
                "ChappiePostgres",
            ]),
        .executableTarget(
            name: "PostgresThreadWriter",
            dependencies: [
                "ChappieCore",
                "ChappieRuntime",
                "ChappieThreadsPostgres",
            ],
            path: "Tests/PostgresThreadWriter"),
        .executableTarget(
            name: "PostgresReadiness",
            dependencies: [
                "ChappieThreadsPostgres",
                "ChappieCredentialsPostgres",
            ],
            path: "Tests/PostgresReadiness"),
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
