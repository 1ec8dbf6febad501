// swift-tools-version: 6.2
// The architecture on one page. Domain first, then ports' adapters, then facade, tools, programs.
// Every package below also builds alone from its own manifest; Scripts/check compares the two.
import PackageDescription

// MARK: Third-party products (one line of reasons each in ARCHITECTURE.md)

let httpTypes = Target.Dependency.product(name: "HTTPTypes", package: "swift-http-types")
let argumentParser = Target.Dependency.product(name: "ArgumentParser", package: "swift-argument-parser")
let logging = Target.Dependency.product(name: "Logging", package: "swift-log")
let inMemoryLogging = Target.Dependency.product(name: "InMemoryLogging", package: "swift-log")
let heap = Target.Dependency.product(name: "HeapModule", package: "swift-collections")
let nio: [Target.Dependency] = [
    .product(name: "NIOCore", package: "swift-nio"),
    .product(name: "NIOEmbedded", package: "swift-nio"),
    .product(name: "NIOPosix", package: "swift-nio"),
    .product(name: "NIOHTTP1", package: "swift-nio"),
    .product(name: "NIOWebSocket", package: "swift-nio"),
]

// MARK: Shapes

func module(_ name: String, in package: String? = nil, _ dependencies: [Target.Dependency]) -> Target {
    .target(name: name, dependencies: dependencies, path: "Packages/\(package ?? name)/Sources/\(name)")
}

// Where there is SwiftUI, ChappieSDK brings the sign-in button. A program on Linux that wants its model asks for the module.
let applePlatforms: [Platform] = [.macOS, .macCatalyst, .iOS]

// For App Store Connect. On Linux a resource would bring an accessor that imports all of Foundation.
#if os(macOS)
    let privacyResources: [Resource]? = [.copy("PrivacyInfo.xcprivacy")]
    let privacyExcluded: [String] = []
#else
    let privacyResources: [Resource]? = nil
    let privacyExcluded = ["PrivacyInfo.xcprivacy"]
#endif

func tests(of name: String, _ dependencies: [Target.Dependency] = []) -> Target {
    .testTarget(
        name: "\(name)Tests", dependencies: [.byName(name: name)] + dependencies,
        path: "Packages/\(name)/Tests/\(name)Tests")
}

func crossing(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
    .testTarget(name: name, dependencies: dependencies, path: "Tests/\(name)")
}

// MARK: The graph

let package = Package(
    name: "chappie",
    platforms: [.macOS(.v15), .iOS(.v18)],
    products: [
        .library(name: "ChappieSDK", targets: ["ChappieSDK"]),
        .library(name: "ChappieSDKRuntime", targets: ["ChappieSDKRuntime"]),
        .library(name: "ChappieSDKTesting", targets: ["ChappieSDKTesting", "ChappieTesting"]),
        .library(name: "ChappieCore", targets: ["ChappieCore"]),
        .library(name: "ChappieJSONSchema", targets: ["ChappieJSONSchema"]),
        .library(name: "ChappieAuth", targets: ["ChappieAuth"]),
        .library(name: "ChappieClient", targets: ["ChappieClient"]),
        .library(name: "ChappieRuntime", targets: ["ChappieRuntime"]),
        .library(name: "ChappieSignInUI", targets: ["ChappieSignInUI"]),
        .library(name: "ChappieThreadForms", targets: ["ChappieThreadForms"]),
        .library(name: "ChappieThreadsSQLite", targets: ["ChappieThreadsSQLite"]),
        .library(name: "ChappieHTTP", targets: ["ChappieHTTP"]),
        .library(name: "ChappieWebSocket", targets: ["ChappieWebSocket"]),
        .library(name: "ChappieKeychainLinux", targets: ["ChappieKeychainLinux"]),
        .library(name: "ChappieCrypto", targets: ["ChappieCrypto"]),
        .library(name: "ChappieDesktopLinux", targets: ["ChappieDesktopLinux"]),
        .library(name: "ChappieMCP", targets: ["ChappieMCP"]),
        .library(name: "ChappieProgramTools", targets: ["ChappieProgramTools"]),
        .library(name: "ChappieThreadsPostgres", targets: ["ChappieThreadsPostgres"]),
        .library(name: "ChappieSimulator", targets: ["ChappieSimulator"]),
        .library(name: "ChappieSimulatorServer", targets: ["ChappieSimulatorServer"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-http-types", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-collections", from: "1.6.0"),
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
    ],
    targets: [
        // Domain
        module("ChappieCore", [httpTypes]),
        module("ChappieJSONSchema", ["ChappieCore"]),
        module("ChappieAuth", ["ChappieCore", httpTypes, logging]),
        // Application
        module("ChappieClient", ["ChappieCore", "ChappieJSONSchema", "ChappieAuth", httpTypes, logging]),
        module("ChappieRuntime", ["ChappieCore", "ChappieJSONSchema", "ChappieAuth", "ChappieClient"]),
        module("ChappieSignInUI", ["ChappieCore", "ChappieAuth"]),
        // Adapters
        module("CCurl", []),
        module("CZstd", []),
        module("CZlib", []),
        module("ChappieCurl", ["ChappieCore", "CCurl", heap, httpTypes]),
        module("ChappieHTTP", ["ChappieCore", "ChappieCurl", "CZstd", httpTypes]),
        module("ChappieWebSocket", ["ChappieCore", "ChappieCurl", "CZlib", httpTypes]),
        module("CSecret", in: "ChappieKeychainLinux", []),
        module("ChappieKeychainLinux", ["ChappieCore", "ChappieAuth", "CSecret"]),
        module("COpenSSL", []),
        module("ChappieCrypto", ["ChappieCore", "ChappieAuth", "COpenSSL"]),
        module("CSQLite", []),
        module("ChappieSQLite", ["CSQLite"]),
        module(
            "ChappieThreadsSQLite",
            ["ChappieCore", "ChappieAuth", "ChappieRuntime", "ChappieCrypto", "ChappieSQLite", "CSQLite"]),
        module("CSpawn", in: "ChappieProcess", []),
        module("ChappieProcess", ["ChappieCore", "CSpawn"]),
        module("ChappieDesktopLinux", ["ChappieCore", "ChappieAuth", "ChappieProcess"]),
        module("ChappieMCP", ["ChappieCore", "ChappieJSONSchema", "ChappieAuth", "ChappieClient", "ChappieProcess"]),
        module("ChappieProgramTools", ["ChappieCore", "ChappieJSONSchema", "ChappieClient", "ChappieProcess"]),
        module("CPostgres", []),
        module("ChappieThreadsPostgres", ["ChappieCore", "ChappieAuth", "ChappieRuntime", "CPostgres"]),
        // Faces of the command line
        module("CCMark", []),
        module("ChappieMarkdown", ["ChappieCore", "CCMark"]),
        module("ChappieThreadForms", ["ChappieCore", "ChappieRuntime", "ChappieMarkdown", "ChappieSQLite"]),
        module("CEditline", []),
        module("ChappieLineEditor", ["CEditline"]),
        module("CQRencode", []),
        // Facade
        .target(
            name: "ChappieSDK",
            dependencies: [
                "ChappieCore", "ChappieJSONSchema", "ChappieAuth", "ChappieClient", "ChappieCurl", "ChappieHTTP",
                "ChappieWebSocket", "ChappieKeychainLinux", "ChappieCrypto", "ChappieDesktopLinux", logging,
                .byName(name: "ChappieSignInUI", condition: .when(platforms: applePlatforms)),
            ],
            path: "Packages/ChappieSDK/Sources/ChappieSDK", exclude: privacyExcluded, resources: privacyResources),
        module(
            "ChappieSDKRuntime", in: "ChappieSDK",
            ["ChappieAuth", "ChappieRuntime", "ChappieThreadsSQLite", "ChappieSDK"]),
        // Tools
        module("ChappieSimulator", ["ChappieCore", "CZstd"]),
        module(
            "ChappieSimulatorServer", in: "ChappieSimulator",
            ["ChappieCore", "ChappieSimulator", "CZlib"] + nio),
        module(
            "ChappieTesting",
            [
                "ChappieCore", "ChappieAuth", "ChappieClient", "ChappieRuntime", "ChappieSimulator",
                "ChappieSimulatorServer", httpTypes,
            ]),
        module("ChappieSDKTesting", in: "ChappieTesting", ["ChappieTesting", "ChappieSimulatorServer"]),
        // Test support (no product: for our own tests)
        module("TestFixtures", ["ChappieCore"]),
        // Programs (no product: see CONTRIBUTING.md, "Facts about SwiftPM")
        .executableTarget(
            name: "chappie",
            dependencies: [
                "ChappieSDK", "ChappieCore", "ChappieJSONSchema", "ChappieAuth", "ChappieClient", "ChappieCurl",
                "ChappieHTTP",
                "ChappieWebSocket", "ChappieKeychainLinux", "ChappieCrypto", "ChappieDesktopLinux", "ChappieProcess",
                "ChappieMCP", "ChappieProgramTools", "ChappieRuntime", "ChappieThreadForms", "ChappieThreadsSQLite",
                "ChappieSignInUI",
                "CSpawn",
                "ChappieMarkdown", "ChappieLineEditor", "CQRencode", "ChappieSimulator", "ChappieSimulatorServer",
                httpTypes, argumentParser,
            ],
            path: "Apps/chappie/Sources/chappie"),
        // Programs that tests kill
        .executableTarget(
            name: "FileStoreWriter", dependencies: ["ChappieAuth", "ChappieCrypto"],
            path: "Packages/ChappieCrypto/Tests/FileStoreWriter"),
        .executableTarget(
            name: "ThreadStoreWriter",
            dependencies: ["ChappieCore", "ChappieAuth", "ChappieRuntime", "ChappieCrypto", "ChappieThreadsSQLite"],
            path: "Packages/ChappieThreadsSQLite/Tests/ThreadStoreWriter"),
        .executableTarget(
            name: "PostgresThreadWriter", dependencies: ["ChappieCore", "ChappieRuntime", "ChappieThreadsPostgres"],
            path: "Packages/ChappieThreadsPostgres/Tests/PostgresThreadWriter"),
        // A program that tests interrupt
        .executableTarget(
            name: "ExitWhileConnecting", dependencies: ["ChappieCore", "ChappieWebSocket", httpTypes],
            path: "Packages/ChappieCurl/Tests/ExitWhileConnecting"),
        // A program that Tests/Acceptance runs
        .executableTarget(
            name: "autobahn", dependencies: ["ChappieCore", "ChappieWebSocket", httpTypes],
            path: "Tests/Autobahn/Sources/autobahn"),
        // Tests of one package
        tests(of: "ChappieCore", ["TestFixtures", httpTypes]),
        tests(of: "ChappieJSONSchema", ["ChappieCore", "TestFixtures"]),
        tests(
            of: "ChappieAuth",
            ["ChappieCore", "ChappieHTTP", "ChappieTesting", "ChappieSimulatorServer", "TestFixtures", httpTypes]),
        tests(
            of: "ChappieClient",
            [
                "ChappieCore", "ChappieJSONSchema", "ChappieAuth", "ChappieTesting", "TestFixtures", httpTypes, logging,
                inMemoryLogging,
            ]),
        tests(
            of: "ChappieCurl",
            [
                "ChappieCore", "CCurl", "ChappieHTTP", "ChappieWebSocket", "ChappieTesting", "ChappieSimulatorServer",
                "TestFixtures", "ExitWhileConnecting", httpTypes,
            ]),
        tests(
            of: "ChappieHTTP",
            ["ChappieCore", "ChappieTesting", "ChappieSimulatorServer", "TestFixtures", "CZstd", httpTypes]),
        tests(
            of: "ChappieWebSocket",
            ["ChappieCore", "ChappieTesting", "ChappieSimulatorServer", "TestFixtures", "CZlib", httpTypes]),
        tests(
            of: "ChappieRuntime",
            [
                "ChappieCore", "ChappieJSONSchema", "ChappieAuth", "ChappieClient", "ChappieTesting",
                "ChappieSimulatorServer", httpTypes,
            ]),
        tests(
            of: "ChappieSignInUI",
            ["ChappieCore", "ChappieAuth", "ChappieHTTP", "ChappieTesting", "ChappieSimulatorServer", httpTypes]),
        tests(of: "ChappieProcess", ["ChappieCore", "TestFixtures"]),
        tests(of: "ChappieDesktopLinux", ["ChappieAuth", "ChappieProcess", "TestFixtures"]),
        tests(of: "ChappieProgramTools", ["ChappieCore", "ChappieClient", "ChappieProcess", "TestFixtures"]),
        tests(of: "ChappieMCP", ["ChappieCore", "ChappieJSONSchema", "ChappieClient", "TestFixtures"]),
        tests(of: "ChappieMarkdown"),
        tests(
            of: "ChappieThreadForms",
            ["ChappieCore", "ChappieClient", "ChappieRuntime", "ChappieMarkdown", "TestFixtures", "CSQLite"]),
        tests(of: "ChappieLineEditor"),
        tests(of: "ChappieKeychainLinux", ["ChappieCore", "ChappieAuth", "ChappieTesting", "TestFixtures"]),
        tests(
            of: "ChappieThreadsSQLite",
            [
                "ChappieCore", "ChappieAuth", "ChappieRuntime", "ChappieCrypto", "ChappieTesting", "TestFixtures",
                "CSQLite", "ThreadStoreWriter",
            ]),
        tests(of: "ChappieCrypto", ["ChappieAuth", "ChappieTesting", "TestFixtures", "FileStoreWriter"]),
        tests(
            of: "ChappieThreadsPostgres",
            [
                "ChappieCore", "ChappieAuth", "ChappieRuntime", "ChappieTesting", "TestFixtures",
                "PostgresThreadWriter",
            ]),
        tests(
            of: "ChappieSDK",
            [
                "ChappieSDKRuntime",
                "ChappieCore", "ChappieAuth", "ChappieClient", "ChappieTesting", "ChappieSimulatorServer",
                "TestFixtures",
                httpTypes, logging, inMemoryLogging,
            ]),
        tests(of: "ChappieSimulator", ["ChappieCore", "ChappieSimulatorServer", "CZlib", "TestFixtures"]),
        tests(of: "TestFixtures"),
        // Tests of the program
        .testTarget(
            name: "chappieTests",
            dependencies: [
                "chappie", "ChappieCore", "ChappieJSONSchema", "ChappieAuth", "ChappieCurl", "ChappieMarkdown",
                "ChappieProcess",
                "ChappieRuntime",
                "ChappieSDK", "ChappieSimulator", "CQRencode", argumentParser,
            ],
            path: "Apps/chappie/Tests/chappieTests"),
        // Tests that cross packages
        crossing(
            "IntegrationTests",
            [
                "ChappieCore", "ChappieJSONSchema", "ChappieAuth", "ChappieClient", "ChappieCurl", "ChappieHTTP",
                "ChappieWebSocket", "ChappieTesting", "ChappieSimulatorServer", "TestFixtures", httpTypes,
            ]),
    ],
    swiftLanguageModes: [.v6],
    cLanguageStandard: .c11
)

// One set of rules for all of our own targets.
for target in package.targets where !target.name.hasPrefix("C") || target.name.hasPrefix("Chappie") {
    target.swiftSettings =
        (target.swiftSettings ?? []) + [
            .enableUpcomingFeature("ExistentialAny"),
            .enableUpcomingFeature("InternalImportsByDefault"),
            .enableUpcomingFeature("MemberImportVisibility"),
            .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
            .treatAllWarnings(as: .error),
        ]
}

// CHAPPIE_TEST_TARGETS=ChappieAuthTests,ChappieCoreTests builds these test targets alone: quicker while working on one package.
if let wanted = Context.environment["CHAPPIE_TEST_TARGETS"]?.split(separator: ",").map(String.init) {
    package.targets.removeAll { $0.type == .test && !wanted.contains($0.name) }
}
