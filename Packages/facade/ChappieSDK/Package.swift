// swift-tools-version: 6.2
// Facade: the default composition for the platform.
import PackageDescription

// As in the root manifest.
let applePlatforms: [Platform] = [.macOS, .macCatalyst, .iOS, .visionOS]
func only(_ platforms: [Platform], _ names: [String]) -> [Target.Dependency] {
    names.map { .byName(name: $0, condition: .when(platforms: platforms)) }
}
#if os(macOS)
    let privacyResources: [Resource] = [.copy("PrivacyInfo.xcprivacy")]
    let privacyExcluded: [String] = []
#else
    let privacyResources: [Resource] = []
    let privacyExcluded = ["PrivacyInfo.xcprivacy"]
#endif

let package = Package(
    name: "ChappieSDK",
    platforms: [.macOS(.v15), .iOS(.v18), .visionOS(.v2)],
    products: [
        .library(name: "ChappieSDK", targets: ["ChappieSDK"]),
        .library(name: "ChappieSDKRuntime", targets: ["ChappieSDKRuntime"]),
    ],
    dependencies: [
        .package(path: "../../domain/ChappieCore"),
        .package(path: "../../domain/ChappieJSONSchema"),
        .package(path: "../../domain/ChappieAuth"),
        .package(path: "../../application/ChappieClient"),
        .package(path: "../../adapters/ChappieFiles"),
        .package(path: "../../adapters/ChappieCurl"),
        .package(path: "../../adapters/ChappieHTTP"),
        .package(path: "../../adapters/ChappieWebSocket"),
        .package(path: "../../adapters/ChappieKeychainLinux"),
        .package(path: "../../adapters/ChappieURLSession"),
        .package(path: "../../adapters/ChappieKeychainApple"),
        .package(path: "../../adapters/ChappieCrypto"),
        .package(path: "../../adapters/ChappieDesktopLinux"),
        .package(path: "../../adapters/ChappieLoopback"),
        .package(path: "../../application/ChappieRuntime"),
        .package(path: "../../application/ChappieSignInUI"),
        .package(path: "../../adapters/ChappieThreadsSQLite"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
    ],
    targets: [
        .target(
            name: "ChappieSDK",
            dependencies: [
                "ChappieCore",
                "ChappieJSONSchema",
                "ChappieAuth",
                "ChappieClient",
                "ChappieFiles",
                "ChappieCrypto",
                "ChappieLoopback",
                "ChappieWebSocket",
                .product(name: "Logging", package: "swift-log"),
            ]
                + only([.linux], ["ChappieCurl", "ChappieHTTP", "ChappieKeychainLinux", "ChappieDesktopLinux"])
                + only(applePlatforms, ["ChappieURLSession", "ChappieKeychainApple", "ChappieSignInUI"]),
            exclude: privacyExcluded, resources: privacyResources),
        .target(
            name: "ChappieSDKRuntime",
            dependencies: [
                "ChappieAuth",
                "ChappieRuntime",
                "ChappieThreadsSQLite",
                "ChappieSDK",
            ]),
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
