// swift-tools-version: 6.2
// Compiles every target that an app for Apple's platforms links, as far as possible as these platforms see it: with full
// Foundation, with OpenCombine as `Combine`, and with hand-written empty declarations as `SwiftUI` and its neighbours. It is a
// package of its own, since `canImport(SwiftUI)` must be true here and nowhere else. Scripts/lib/swiftui.py builds it and plants
// mistakes. `Scripts/lib/tree.py apple` checks that no target is missing.
import PackageDescription

let strict: [SwiftSetting] = Context.environment["CHAPPIE_STRICT"] == "1" ? [.treatAllWarnings(as: .error)] : []
var settings: [SwiftSetting] = [
    .enableUpcomingFeature("ExistentialAny"), .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"), .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
    .define("CHAPPIE_FULL_FOUNDATION"),
]
settings += strict
let apple: [SwiftSetting] = [.swiftLanguageMode(.v5)]
let httpTypes = Target.Dependency.product(name: "HTTPTypes", package: "swift-http-types")
let system = Target.Dependency.product(name: "SystemPackage", package: "swift-system")
let logging = Target.Dependency.product(name: "Logging", package: "swift-log")
let nio = ["NIOCore", "NIOEmbedded", "NIOPosix", "NIOHTTP1", "NIOWebSocket"].map {
    Target.Dependency.product(name: $0, package: "swift-nio")
}

let package = Package(
    name: "swiftui-check",
    dependencies: [
        .package(url: "https://github.com/apple/swift-http-types", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/apple/swift-system", from: "1.8.1"),
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
        .package(url: "https://github.com/OpenCombine/OpenCombine", from: "0.14.0"),
    ],
    targets: [
        // Stand-ins for Apple's modules, whose interfaces count as Swift 5's.
        .target(name: "Combine", dependencies: ["OpenCombine"], swiftSettings: apple),
        .target(name: "SwiftUI", dependencies: ["Combine"], swiftSettings: apple),
        .target(name: "UIKit", swiftSettings: apple),
        .target(name: "AppKit", swiftSettings: apple),
        .target(name: "AuthenticationServices", dependencies: ["UIKit"], swiftSettings: apple),
        .target(name: "UserNotifications", swiftSettings: apple),
        .target(name: "Accessibility", swiftSettings: apple),
        .target(name: "Security", swiftSettings: apple),
        .target(name: "CryptoKit", swiftSettings: apple),
        .target(name: "CTLS"),
        .target(name: "Network", dependencies: ["CTLS", "Security"], swiftSettings: apple),
        // Links to the packages' own sources.
        .target(name: "ChappieCore", dependencies: ["Security", httpTypes], swiftSettings: settings),
        .target(name: "ChappieJSONSchema", dependencies: ["ChappieCore"], swiftSettings: settings),
        .target(
            name: "ChappieAuth", dependencies: ["ChappieCore", "Combine", httpTypes, logging], swiftSettings: settings),
        .target(
            name: "ChappieFiles", dependencies: ["ChappieCore", "ChappieAuth", "Security", system],
            exclude: ["PrivacyInfo.xcprivacy"], swiftSettings: settings),
        .target(
            name: "ChappieKeychainApple", dependencies: ["ChappieCore", "ChappieAuth", "Security", "UIKit"],
            swiftSettings: settings),
        .target(
            name: "ChappieURLSession",
            dependencies: ["ChappieCore", "ChappieFiles", "ChappieWebSocket", "Security", "Network", httpTypes],
            swiftSettings: settings),
        .target(name: "CZlib"),
        .target(name: "ChappieWebSocket", dependencies: ["ChappieCore", "CZlib", httpTypes], swiftSettings: settings),
        .target(
            name: "ChappieClient",
            dependencies: ["ChappieCore", "ChappieJSONSchema", "ChappieAuth", "Combine", httpTypes, logging],
            swiftSettings: settings),
        .target(
            name: "ChappieRuntime", dependencies: ["ChappieCore", "ChappieJSONSchema", "ChappieAuth", "ChappieClient"],
            swiftSettings: settings),
        .target(
            name: "ChappieCrypto",
            dependencies: ["ChappieCore", "ChappieAuth", "ChappieFiles", "CryptoKit", "Security", system],
            exclude: ["PrivacyInfo.xcprivacy"], swiftSettings: settings),
        .target(
            name: "ChappieLoopback", dependencies: ["ChappieAuth", "ChappieFiles", system], swiftSettings: settings),
        .target(name: "CSQLite"),
        .target(name: "ChappieSQLite", dependencies: ["CSQLite"], swiftSettings: settings),
        .target(
            name: "ChappieThreadsSQLite",
            dependencies: [
                "ChappieCore", "ChappieAuth", "ChappieRuntime", "ChappieFiles", "ChappieCrypto", "ChappieSQLite",
                "CSQLite", "Security", system,
            ],
            exclude: ["PrivacyInfo.xcprivacy"], swiftSettings: settings),
        .target(
            name: "ChappieSignInUI",
            dependencies: [
                "ChappieCore", "ChappieAuth", "Combine", "SwiftUI", "UIKit", "AuthenticationServices",
                "UserNotifications", "Accessibility",
            ],
            exclude: ["PrivacyInfo.xcprivacy"], swiftSettings: settings),
        .target(
            name: "ChappieSDK",
            dependencies: [
                "ChappieCore", "ChappieJSONSchema", "ChappieAuth", "ChappieClient", "ChappieFiles", "ChappieCrypto",
                "ChappieLoopback", "ChappieWebSocket", "ChappieURLSession", "ChappieKeychainApple", "ChappieSignInUI",
                "Security", httpTypes, logging,
            ],
            exclude: ["PrivacyInfo.xcprivacy"], swiftSettings: settings),
        .target(
            name: "ChappieSDKRuntime",
            dependencies: ["ChappieAuth", "ChappieRuntime", "ChappieThreadsSQLite", "ChappieSDK"],
            swiftSettings: settings),
        // Only a module with this version has the declarations of models.
        .target(
            name: "FoundationModels", dependencies: ["ChappieCore"],
            swiftSettings: settings + [.unsafeFlags(["-user-module-version", "2.0"])]),
        .target(
            name: "ChappieFoundationModels",
            dependencies: [
                "ChappieCore", "ChappieJSONSchema", "ChappieAuth", "ChappieClient", "ChappieSDK", "FoundationModels",
                logging,
            ],
            swiftSettings: settings),
        .target(
            name: "ChappieMCP",
            dependencies: ["ChappieCore", "ChappieJSONSchema", "ChappieAuth", "ChappieClient", httpTypes],
            swiftSettings: settings),
        .target(name: "ChappieSimulator", dependencies: ["ChappieCore", httpTypes], swiftSettings: settings),
        .target(
            name: "ChappieSimulatorServer", dependencies: ["ChappieCore", "ChappieSimulator", "CZlib"] + nio,
            swiftSettings: settings),
        .target(
            name: "ChappieTesting",
            dependencies: [
                "ChappieCore", "ChappieAuth", "ChappieClient", "ChappieRuntime", "ChappieKeychainApple",
                "ChappieSimulator", "ChappieSimulatorServer", "Security", httpTypes,
            ],
            swiftSettings: settings),
        .target(
            name: "ChappieSDKTesting", dependencies: ["ChappieTesting", "ChappieSimulatorServer"],
            swiftSettings: settings),
        // The adapter of Network.framework over the stand-in, which Tests/Acceptance runs, with the tests' own fixtures.
        .target(name: "TestFixtures", dependencies: ["ChappieCore", "ChappieFiles", system], swiftSettings: settings),
        .executableTarget(
            name: "network-tests",
            dependencies: [
                "ChappieCore", "ChappieURLSession", "ChappieWebSocket", "ChappieTesting", "ChappieSimulatorServer",
                "TestFixtures", "Network", "Security", httpTypes,
            ],
            swiftSettings: settings),
        .executableTarget(
            name: "autobahn", dependencies: ["ChappieCore", "ChappieURLSession", "ChappieWebSocket", httpTypes],
            swiftSettings: settings),
        // An app's own code.
        .target(
            name: "Forms", dependencies: ["ChappieSDK", "SwiftUI", "Combine", "AppKit"], swiftSettings: strict),
        // The page of a sign-in inside the app, over a browser that shows nothing, as a program that Tests/Acceptance runs.
        .executableTarget(
            name: "page-run", dependencies: ["ChappieSDK", "ChappieSignInUI", "AuthenticationServices", "UIKit"],
            swiftSettings: strict),
        // A whole app of the documentation's code; and what it does, as a program that Tests/Acceptance runs.
        .target(
            name: "DocumentsApp", dependencies: ["ChappieSDK", "ChappieSDKRuntime", "SwiftUI", "Combine"],
            swiftSettings: strict),
        // The example of an app.
        .target(name: "ChatModel", dependencies: ["ChappieSDK", "ChappieSDKRuntime"], swiftSettings: strict),
        .target(
            name: "ChatApp", dependencies: ["ChatModel", "ChappieSDK", "ChappieSDKRuntime", "SwiftUI", "Combine"],
            exclude: ["Info.plist", "ChatApp.entitlements"], swiftSettings: strict),
        .executableTarget(
            name: "documents-run",
            dependencies: [
                "ChappieSDK", "ChappieSDKRuntime", "ChappieAuth", "ChappieKeychainApple", "ChappieSignInUI", "UIKit",
            ],
            swiftSettings: strict),
    ],
    swiftLanguageModes: [.v6]
)
