// swift-tools-version: 6.2
// The architecture on one page. Domain first, then ports' adapters, then facade, tools. Programs are in Apps.
// Every package below also builds alone from its own manifest; Scripts/check compares the two.
import PackageDescription

// MARK: Third-party products (one line of reasons each in ARCHITECTURE.md)

let httpTypes = Target.Dependency.product(name: "HTTPTypes", package: "swift-http-types")
let logging = Target.Dependency.product(name: "Logging", package: "swift-log")
let inMemoryLogging = Target.Dependency.product(name: "InMemoryLogging", package: "swift-log")
let system = Target.Dependency.product(name: "SystemPackage", package: "swift-system")
let heap = Target.Dependency.product(name: "HeapModule", package: "swift-collections")
let nio: [Target.Dependency] = [
    .product(name: "NIOCore", package: "swift-nio"),
    .product(name: "NIOEmbedded", package: "swift-nio"),
    .product(name: "NIOPosix", package: "swift-nio"),
    .product(name: "NIOHTTP1", package: "swift-nio"),
    .product(name: "NIOWebSocket", package: "swift-nio"),
]
// Only with the trait. Without it, SwiftPM does not even fetch these packages.
let observability = TargetDependencyCondition.when(traits: ["Observability"])
let metrics = Target.Dependency.product(name: "Metrics", package: "swift-metrics", condition: observability)
let tracing = Target.Dependency.product(
    name: "Tracing", package: "swift-distributed-tracing", condition: observability)

// MARK: Shapes

// For App Store Connect: a module has a privacy manifest if it collects data, or calls what Apple requires a reason for. On Linux
// a resource would bring an accessor that imports all of Foundation.
#if os(macOS)
    let privacyResources: [Resource] = [.copy("PrivacyInfo.xcprivacy")]
    let privacyExcluded: [String] = []
#else
    let privacyResources: [Resource] = []
    let privacyExcluded = ["PrivacyInfo.xcprivacy"]
#endif

// `place` names the layer and the package, and the module itself if the package has several.
func module(_ place: String, _ dependencies: [Target.Dependency], hasPrivacyManifest: Bool = false) -> Target {
    let parts = place.split(separator: "/")
    let name = String(parts.last ?? "")
    return .target(
        name: name, dependencies: dependencies,
        path: "Packages/\(parts.prefix(2).joined(separator: "/"))/Sources/\(name)",
        exclude: hasPrivacyManifest ? privacyExcluded : [], resources: hasPrivacyManifest ? privacyResources : [])
}

// Apple's platforms have libraries of their own for this.
let onLinux = TargetDependencyCondition.when(platforms: [.linux])

let applePlatforms: [Platform] = [.macOS, .macCatalyst, .iOS, .visionOS]

// The adapters and libraries of a platform: no other one builds them.
func only(_ platforms: [Platform], _ names: [String]) -> [Target.Dependency] {
    names.map { .byName(name: $0, condition: .when(platforms: platforms)) }
}

func tests(of package: String, _ dependencies: [Target.Dependency] = []) -> Target {
    let parts = package.split(separator: "/")
    let name = String(parts.last ?? "")
    return .testTarget(
        name: "\(name)Tests", dependencies: [.byName(name: name)] + dependencies,
        path: "Packages/\(parts.prefix(2).joined(separator: "/"))/Tests/\(name)Tests")
}

func crossing(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
    .testTarget(name: name, dependencies: dependencies, path: "Tests/\(name)")
}

// Linux has only declarations of Apple's framework, which are for our own builds and tests, so no product is made there.
#if os(macOS)
    let foundationModels: [Product] = [.library(name: "ChappieFoundationModels", targets: ["ChappieFoundationModels"])]
#else
    let foundationModels: [Product] = []
#endif

// MARK: The graph

let package = Package(
    name: "chappie",
    platforms: [.macOS(.v15), .iOS(.v18), .visionOS(.v2)],
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
        .library(name: "ChappieMarkdown", targets: ["ChappieMarkdown"]),
        .library(name: "ChappieThreadForms", targets: ["ChappieThreadForms"]),
        .library(name: "ChappieThreadsSQLite", targets: ["ChappieThreadsSQLite"]),
        .library(name: "ChappieFiles", targets: ["ChappieFiles"]),
        .library(name: "ChappieHTTP", targets: ["ChappieHTTP"]),
        .library(name: "ChappieURLSession", targets: ["ChappieURLSession"]),
        .library(name: "ChappieWebSocket", targets: ["ChappieWebSocket"]),
        .library(name: "ChappieKeychainLinux", targets: ["ChappieKeychainLinux"]),
        .library(name: "ChappieKeychainApple", targets: ["ChappieKeychainApple"]),
        .library(name: "ChappieCrypto", targets: ["ChappieCrypto"]),
        .library(name: "ChappieDesktopLinux", targets: ["ChappieDesktopLinux"]),
        .library(name: "ChappieLoopback", targets: ["ChappieLoopback"]),
        .library(name: "ChappieMCP", targets: ["ChappieMCP"]),
        .library(name: "ChappieProgramTools", targets: ["ChappieProgramTools"]),
        .library(name: "ChappiePostgres", targets: ["ChappiePostgres"]),
        .library(name: "ChappieThreadsPostgres", targets: ["ChappieThreadsPostgres"]),
        .library(name: "ChappieCredentialsPostgres", targets: ["ChappieCredentialsPostgres"]),
        .library(name: "ChappieObservability", targets: ["ChappieObservability"]),
        .library(name: "ChappieSimulator", targets: ["ChappieSimulator"]),
        .library(name: "ChappieSimulatorServer", targets: ["ChappieSimulatorServer"]),
        // Internal: for the programs in Apps. Its declarations may change in any version.
        .library(name: "_ChappieInternals", targets: ["ChappieCurl", "ChappieProcess", "CSpawn"]),
    ] + foundationModels,
    traits: [.trait(name: "Observability", description: "ChappieObservability with its two packages.")],
    dependencies: [
        .package(url: "https://github.com/apple/swift-http-types", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-collections", from: "1.6.0"),
        .package(url: "https://github.com/apple/swift-system", from: "1.8.1"),
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/apple/swift-metrics", from: "2.13.0"),
        .package(url: "https://github.com/apple/swift-distributed-tracing", from: "1.7.3"),
    ],
    targets: [
        // Domain
        module("domain/ChappieCore", [httpTypes]),
        module("domain/ChappieJSONSchema", ["ChappieCore"]),
        module("domain/ChappieAuth", ["ChappieCore", httpTypes, logging]),
        // Application
        module("application/ChappieClient", ["ChappieCore", "ChappieJSONSchema", "ChappieAuth", httpTypes, logging]),
        module("application/ChappieRuntime", ["ChappieCore", "ChappieJSONSchema", "ChappieAuth", "ChappieClient"]),
        module("application/ChappieSignInUI", ["ChappieCore", "ChappieAuth"], hasPrivacyManifest: true),
        // Adapters
        module("adapters/ChappieFiles", ["ChappieCore", "ChappieAuth", system], hasPrivacyManifest: true),
        module("adapters/ChappieCurl/CCurl", []),
        module("adapters/CZstd", []),
        module("adapters/CZlib", []),
        module("adapters/ChappieCurl", ["ChappieCore", "CCurl", heap]),
        module("adapters/ChappieHTTP", ["ChappieCore", "ChappieCurl", "CZstd", httpTypes]),
        module("adapters/ChappieURLSession", ["ChappieCore", "ChappieFiles", "ChappieWebSocket", httpTypes]),
        module(
            "adapters/ChappieWebSocket",
            ["ChappieCore", .byName(name: "ChappieCurl", condition: onLinux), "CZlib", httpTypes]),
        module("adapters/ChappieKeychainLinux/CSecret", []),
        module("adapters/ChappieKeychainLinux", ["ChappieCore", "ChappieAuth", "CSecret"]),
        module("adapters/ChappieKeychainApple", ["ChappieCore", "ChappieAuth"]),
        module("adapters/ChappieLoopback", ["ChappieAuth", "ChappieFiles", system]),
        module("adapters/ChappieCrypto/COpenSSL", []),
        module(
            "adapters/ChappieCrypto",
            ["ChappieCore", "ChappieAuth", "ChappieFiles", .byName(name: "COpenSSL", condition: onLinux), system],
            hasPrivacyManifest: true),
        module("adapters/ChappieSQLite/CSQLite", []),
        module("adapters/ChappieSQLite", ["CSQLite"]),
        module(
            "adapters/ChappieThreadsSQLite",
            [
                "ChappieCore", "ChappieAuth", "ChappieRuntime", "ChappieFiles", "ChappieCrypto", "ChappieSQLite",
                "CSQLite", system,
            ],
            hasPrivacyManifest: true),
        module("adapters/ChappieProcess/CSpawn", []),
        module("adapters/ChappieProcess", ["ChappieCore", "ChappieFiles", "CSpawn", system]),
        module(
            "adapters/ChappieDesktopLinux", ["ChappieCore", "ChappieAuth", "ChappieFiles", "ChappieProcess", system]),
        module(
            "adapters/ChappieMCP",
            ["ChappieCore", "ChappieJSONSchema", "ChappieAuth", "ChappieClient", httpTypes]),
        module(
            "adapters/ChappieProgramTools",
            ["ChappieCore", "ChappieJSONSchema", "ChappieClient", "ChappieProcess", "ChappieMCP"]),
        module("adapters/ChappiePostgres/CPostgres", []),
        module("adapters/ChappiePostgres", ["ChappieCore", "ChappieAuth", "CPostgres"]),
        module(
            "adapters/ChappiePostgres/ChappieThreadsPostgres", ["ChappieCore", "ChappieRuntime", "ChappiePostgres"]),
        module(
            "adapters/ChappiePostgres/ChappieCredentialsPostgres",
            ["ChappieCore", "ChappieAuth", "ChappieCrypto", "ChappiePostgres"]),
        module(
            "adapters/ChappieObservability",
            ["ChappieCore", "ChappieAuth", "ChappieClient", "ChappieRuntime", metrics, tracing]),
        // Faces
        module("faces/ChappieMarkdown/CCMark", []),
        module("faces/ChappieMarkdown", ["ChappieCore", "CCMark"]),
        module(
            "faces/ChappieThreadForms",
            [
                "ChappieCore", "ChappieRuntime", "ChappieFiles", "ChappieMarkdown", "ChappieSQLite", "CZlib",
                .byName(name: "CZstd", condition: onLinux),
            ]),
        // Facade
        module(
            "facade/ChappieSDK",
            [
                "ChappieCore", "ChappieJSONSchema", "ChappieAuth", "ChappieClient", "ChappieFiles", "ChappieCrypto",
                "ChappieLoopback", "ChappieWebSocket", logging,
            ]
                + only([.linux], ["ChappieCurl", "ChappieHTTP", "ChappieKeychainLinux", "ChappieDesktopLinux"])
                // A program on Linux that wants the button's model asks for the module.
                + only(applePlatforms, ["ChappieURLSession", "ChappieKeychainApple", "ChappieSignInUI"]),
            hasPrivacyManifest: true),
        module(
            "facade/ChappieSDK/ChappieSDKRuntime",
            ["ChappieAuth", "ChappieRuntime", "ChappieThreadsSQLite", "ChappieSDK"]),
        module(
            "facade/ChappieFoundationModels",
            ["ChappieCore", "ChappieJSONSchema", "ChappieAuth", "ChappieClient", "ChappieSDK", logging]
                + only([.linux], ["FoundationModelsStandIn"])),
        // Tools
        module("testing/ChappieSimulator", ["ChappieCore", .byName(name: "CZstd", condition: onLinux), httpTypes]),
        module(
            "testing/ChappieSimulator/ChappieSimulatorServer",
            ["ChappieCore", "ChappieSimulator", "CZlib"] + nio),
        module(
            "testing/ChappieTesting",
            [
                "ChappieCore", "ChappieAuth", "ChappieClient", "ChappieRuntime", "ChappieKeychainApple",
                "ChappieSimulator", "ChappieSimulatorServer", httpTypes,
            ]),
        module("testing/ChappieTesting/ChappieSDKTesting", ["ChappieTesting", "ChappieSimulatorServer"]),
        // Test support (no product: for our own tests)
        module("testing/TestFixtures", ["ChappieCore", "ChappieFiles", system]),
        module("testing/FoundationModelsStandIn", ["ChappieCore"]),
        // Programs that tests kill
        .executableTarget(
            name: "FileStoreWriter", dependencies: ["ChappieAuth", "ChappieCrypto"],
            path: "Packages/adapters/ChappieCrypto/Tests/FileStoreWriter"),
        .executableTarget(
            name: "ManyUsers", dependencies: ["ChappieSDK", "ChappieAuth", "ChappieClient", "ChappieCore"],
            path: "Packages/facade/ChappieSDK/Tests/ManyUsers"),
        .executableTarget(
            name: "ThreadStoreWriter",
            dependencies: ["ChappieCore", "ChappieAuth", "ChappieRuntime", "ChappieCrypto", "ChappieThreadsSQLite"],
            path: "Packages/adapters/ChappieThreadsSQLite/Tests/ThreadStoreWriter"),
        .executableTarget(
            name: "PostgresThreadWriter", dependencies: ["ChappieCore", "ChappieRuntime", "ChappieThreadsPostgres"],
            path: "Packages/adapters/ChappiePostgres/Tests/PostgresThreadWriter"),
        .executableTarget(
            name: "PostgresSignInUser",
            dependencies: [
                "ChappieSDK", "ChappieAuth", "ChappieCore", "ChappieCrypto", "ChappieCredentialsPostgres",
            ],
            path: "Packages/adapters/ChappiePostgres/Tests/PostgresSignInUser"),
        // The program of docs/Operations.md
        .executableTarget(
            name: "PostgresReadiness", dependencies: ["ChappieThreadsPostgres", "ChappieCredentialsPostgres"],
            path: "Packages/adapters/ChappiePostgres/Tests/PostgresReadiness"),
        // A program that tests interrupt
        .executableTarget(
            name: "ExitWhileConnecting", dependencies: ["ChappieCore", "ChappieWebSocket", httpTypes],
            path: "Packages/adapters/ChappieCurl/Tests/ExitWhileConnecting"),
        // Programs that Tests/Acceptance runs
        .executableTarget(
            name: "ObservedTurns",
            dependencies: ["ChappieCore", "ChappieAuth", "ChappieClient", "ChappieTesting", httpTypes],
            path: "Packages/application/ChappieClient/Tests/ObservedTurns"),
        .executableTarget(
            name: "autobahn",
            dependencies: ["ChappieCore", "ChappieWebSocket", httpTypes] + only(applePlatforms, ["ChappieURLSession"]),
            path: "Tests/Autobahn/Sources/autobahn"),
        // Tests of one package
        tests(of: "domain/ChappieCore", ["TestFixtures", httpTypes]),
        tests(of: "domain/ChappieJSONSchema", ["ChappieCore", "TestFixtures"]),
        tests(of: "adapters/ChappieFiles", ["ChappieCore", "ChappieAuth", "ChappieTesting", "TestFixtures", system]),
        tests(
            of: "domain/ChappieAuth",
            [
                "ChappieCore", "ChappieFiles", "ChappieHTTP", "ChappieTesting", "ChappieSimulatorServer",
                "TestFixtures", httpTypes,
            ]),
        tests(
            of: "application/ChappieClient",
            [
                "ChappieCore", "ChappieJSONSchema", "ChappieAuth", "ChappieFiles", "ChappieTesting", "TestFixtures",
                httpTypes, logging,
                inMemoryLogging,
            ]),
        tests(
            of: "adapters/ChappieCurl",
            [
                "ChappieCore", "CCurl", "ChappieHTTP", "ChappieURLSession", "ChappieWebSocket", "ChappieTesting",
                "ChappieSimulatorServer", "TestFixtures", "ExitWhileConnecting", httpTypes,
            ]),
        tests(
            of: "adapters/ChappieHTTP",
            [
                "ChappieCore", "ChappieURLSession", "ChappieTesting", "ChappieSimulatorServer", "TestFixtures",
                "CZstd", httpTypes,
            ]),
        tests(
            of: "adapters/ChappieURLSession", ["ChappieCore", "ChappieSimulatorServer", "TestFixtures", httpTypes]),
        tests(
            of: "adapters/ChappieWebSocket",
            ["ChappieCore", "ChappieTesting", "ChappieSimulatorServer", "TestFixtures", "CZlib", httpTypes]),
        tests(
            of: "application/ChappieRuntime",
            [
                "ChappieCore", "ChappieJSONSchema", "ChappieAuth", "ChappieClient", "ChappieTesting",
                "ChappieSimulatorServer", httpTypes,
            ]),
        tests(
            of: "application/ChappieSignInUI",
            ["ChappieCore", "ChappieAuth", "ChappieHTTP", "ChappieTesting", "ChappieSimulatorServer", httpTypes]),
        tests(of: "adapters/ChappieProcess", ["ChappieCore", "ChappieFiles", "TestFixtures", system]),
        tests(
            of: "adapters/ChappieDesktopLinux",
            ["ChappieAuth", "ChappieFiles", "ChappieProcess", "TestFixtures", system]),
        tests(
            of: "adapters/ChappieProgramTools",
            ["ChappieCore", "ChappieClient", "ChappieFiles", "ChappieProcess", "TestFixtures"]),
        tests(
            of: "adapters/ChappieMCP",
            [
                "ChappieCore", "ChappieJSONSchema", "ChappieAuth", "ChappieClient", "ChappieCurl", "ChappieHTTP",
                "ChappieProgramTools", "ChappieTesting", "TestFixtures",
                httpTypes,
            ]),
        tests(of: "faces/ChappieMarkdown"),
        tests(
            of: "faces/ChappieThreadForms",
            ["ChappieCore", "ChappieClient", "ChappieRuntime", "ChappieMarkdown", "TestFixtures", "CSQLite"]),
        tests(of: "adapters/ChappieKeychainLinux", ["ChappieCore", "ChappieAuth", "ChappieTesting", "TestFixtures"]),
        tests(of: "adapters/ChappieKeychainApple", ["ChappieAuth", "ChappieTesting"]),
        tests(of: "adapters/ChappieLoopback", ["ChappieAuth", "TestFixtures", system]),
        tests(
            of: "adapters/ChappieThreadsSQLite",
            [
                "ChappieCore", "ChappieAuth", "ChappieRuntime", "ChappieFiles", "ChappieCrypto", "ChappieTesting",
                "TestFixtures",
                "CSQLite", "ChappieSQLite", "ThreadStoreWriter",
            ]),
        tests(of: "adapters/ChappieCrypto", ["ChappieAuth", "ChappieTesting", "TestFixtures", "FileStoreWriter"]),
        tests(
            of: "adapters/ChappiePostgres",
            [
                "ChappieCore", "ChappieAuth", "ChappieRuntime", "ChappieCrypto", "ChappieThreadsPostgres",
                "ChappieCredentialsPostgres", "ChappieSDK", "ChappieSimulatorServer", "ChappieTesting", "TestFixtures",
                "PostgresReadiness",
            ]),
        tests(
            of: "adapters/ChappiePostgres/ChappieThreadsPostgres",
            [
                "ChappieCore", "ChappieAuth", "ChappieRuntime", "ChappiePostgres", "ChappieTesting", "TestFixtures",
                "PostgresThreadWriter",
            ]),
        tests(
            of: "adapters/ChappiePostgres/ChappieCredentialsPostgres",
            [
                "ChappieCore", "ChappieAuth", "ChappieClient", "ChappieCrypto", "ChappieSDK", "ChappieTesting",
                "ChappieSimulatorServer", "TestFixtures", "PostgresSignInUser",
            ]),
        tests(
            of: "facade/ChappieSDK",
            [
                "ChappieSDKRuntime",
                "ChappieCore", "ChappieAuth", "ChappieClient", "ChappieFiles", "ChappieHTTP", "ChappieTesting",
                "ChappieSimulatorServer", "TestFixtures", "ManyUsers",
                httpTypes, logging, inMemoryLogging,
            ]),
        tests(
            of: "facade/ChappieFoundationModels",
            [
                "ChappieCore", "ChappieJSONSchema", "ChappieAuth", "ChappieClient", "ChappieTesting", httpTypes,
                logging, inMemoryLogging,
            ] + only([.linux], ["FoundationModelsStandIn"])),
        tests(
            of: "testing/ChappieSimulator",
            ["ChappieCore", "ChappieSimulatorServer", "CZlib", "TestFixtures", httpTypes]),
        tests(of: "testing/TestFixtures"),
        // Tests that cross packages
        crossing(
            "IntegrationTests",
            [
                "ChappieCore", "ChappieJSONSchema", "ChappieAuth", "ChappieClient", "ChappieRuntime", "ChappieFiles",
                "ChappieCrypto", "ChappieCurl", "ChappieHTTP", "ChappieLoopback", "ChappieWebSocket",
                "ChappieThreadsSQLite", "ChappieThreadForms", "ChappieTesting", "ChappieSimulatorServer",
                "TestFixtures", httpTypes,
            ]),
    ],
    swiftLanguageModes: [.v6],
    cLanguageStandard: .c11
)

// CHAPPIE_STRICT=1, which Scripts/* set, makes warnings errors. Nobody who depends on the package may get this setting: Xcode
// compiles dependencies with -suppress-warnings, and the compiler refuses both options together.
let strict: [SwiftSetting] = Context.environment["CHAPPIE_STRICT"] == "1" ? [.treatAllWarnings(as: .error)] : []

// One set of rules for all of our own targets.
let rules: [SwiftSetting] = [
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
]
for target in package.targets where !target.name.hasPrefix("C") || target.name.hasPrefix("Chappie") {
    target.swiftSettings = (target.swiftSettings ?? []) + rules + strict
}

// CHAPPIE_TEST_TARGETS=ChappieAuthTests,ChappieCoreTests builds these test targets alone: quicker while working on one package.
if let wanted = Context.environment["CHAPPIE_TEST_TARGETS"]?.split(separator: ",").map(String.init) {
    package.targets.removeAll { $0.type == .test && !wanted.contains($0.name) }
}

// MARK: Code that takes the packages

// CHAPPIE_CONSUMERS=FOLDER adds it, so that Scripts/test compiles the packages once: GTK's button and its window, the Examples,
// and what Scripts/lib/printed.py has written into the folder. Each has the manifest of its users as well, and Scripts/check
// compares the two. Like its users it sees only what is public.
if let folder = Context.environment["CHAPPIE_CONSUMERS"] {
    func name(_ path: String) -> String { String(path.split(separator: "/").last ?? "") }
    func program(_ path: String, _ dependencies: [Target.Dependency], _ settings: [SwiftSetting] = strict) -> Target {
        .executableTarget(
            name: name(path), dependencies: dependencies, path: path, packageAccess: false, swiftSettings: settings)
    }
    func library(_ path: String, _ dependencies: [Target.Dependency], _ settings: [SwiftSetting] = strict) -> Target {
        .target(name: name(path), dependencies: dependencies, path: path, packageAccess: false, swiftSettings: settings)
    }
    func testing(_ path: String, _ dependencies: [Target.Dependency]) -> Target {
        .testTarget(
            name: name(path), dependencies: dependencies, path: path, packageAccess: false, swiftSettings: strict)
    }
    let gtk = "Packages/faces/ChappieSignInGTK/Sources"
    let examples = "Examples/Sources"
    package.targets += [
        .systemLibrary(name: "CGtk4", path: "\(gtk)/CGtk4", pkgConfig: "gtk4"),
        library("\(gtk)/ChappieSignInGTK", ["CGtk4", "ChappieCore", "ChappieAuth", "ChappieSignInUI"], rules + strict),
        program(
            "Apps/chappie-gtk/Sources/chappie-gtk",
            [
                "ChappieSDK", "ChappieSDKRuntime", "ChappieProgramTools", "ChappieMarkdown", "ChappieThreadForms",
                "ChappieSignInGTK", "CGtk4",
            ], rules + strict),
        library("\(examples)/Playground", ["ChappieSDK"]),
        program("\(examples)/chat", ["ChappieSDK", "Playground"]),
        program("\(examples)/many-users", ["ChappieSDK", "ChappieSDKRuntime", "Playground"]),
        program("\(examples)/tool-approval", ["ChappieSDK", "Playground"]),
        program("\(examples)/agent", ["ChappieSDK", "Playground"]),
        program("\(examples)/custom-store", ["ChappieSDK", "ChappieAuth", "Playground"]),
        program("\(examples)/thread-store", ["ChappieSDK", "ChappieRuntime", "Playground"]),
        program("\(examples)/sign-in-model", ["ChappieSDK", "ChappieAuth", "ChappieSignInUI", "Playground"]),
        testing("Examples/Tests/ThreadStoreTests", ["thread-store", "ChappieSDKTesting"]),
        library("\(examples)/Notes", ["ChappieSDK"]),
        testing("Examples/Tests/NotesTests", ["Notes", "ChappieSDK", "ChappieSDKTesting"]),
        library("\(examples)/ChatModel", ["ChappieSDK", "ChappieSDKRuntime"]),
        testing(
            "Examples/Tests/ChatModelTests", ["ChatModel", "ChappieSDK", "ChappieSDKRuntime", "ChappieSDKTesting"]),
        program(
            "\(folder)/Sources/sdk-consumer",
            [
                "ChappieSDK", "ChappieAuth", "ChappieCore", "ChappieSDKRuntime", "ChappieThreadForms",
                "ChappieProgramTools", "ChappieCredentialsPostgres", "ChappieCrypto", "ChappieDesktopLinux",
                "ChappieFiles", "ChappieHTTP",
                "ChappieKeychainLinux", "ChappieLoopback", "ChappieMCP", "ChappieMarkdown", "ChappieSignInUI",
                "ChappieThreadsPostgres", "ChappieWebSocket",
                logging,
            ]),
        testing("\(folder)/Tests/SDKConsumerTests", ["sdk-consumer", "ChappieSDK", "ChappieSDKTesting"]),
        program("\(folder)/Sources/readme-gtk", ["ChappieSDK", "ChappieSignInGTK", "CGtk4"]),
    ]
    // The programs of the guides: the first as it is printed, and each at a simulator.
    package.targets += ["printed", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9"].map { number in
        program("\(folder)/Sources/readme-\(number)", ["ChappieSDK", "ChappieSDKRuntime"])
    }
}
