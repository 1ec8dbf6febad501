// swift-tools-version: 6.2
// Presentation: what every face of a sign-in shows, decided once.
import PackageDescription

// As in the root manifest.
#if os(macOS)
    let privacyResources: [Resource] = [.copy("PrivacyInfo.xcprivacy")]
    let privacyExcluded: [String] = []
#else
    let privacyResources: [Resource] = []
    let privacyExcluded = ["PrivacyInfo.xcprivacy"]
#endif

let package = Package(
    name: "ChappieSignInUI",
    platforms: [.macOS(.v15), .iOS(.v18), .visionOS(.v2)],
    products: [.library(name: "ChappieSignInUI", targets: ["ChappieSignInUI"])],
    dependencies: [
        .package(path: "../../domain/ChappieCore"),
        .package(path: "../../domain/ChappieAuth"),
    ],
    targets: [
        .target(
            name: "ChappieSignInUI",
            dependencies: [
                "ChappieCore",
                "ChappieAuth",
            ],
            exclude: privacyExcluded, resources: privacyResources)
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
