// swift-tools-version: 6.2
// Adapter: files of one user: private ones, locks, lists of models, attachments.
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
    name: "ChappieFiles",
    platforms: [.macOS(.v15), .iOS(.v18), .visionOS(.v2)],
    products: [.library(name: "ChappieFiles", targets: ["ChappieFiles"])],
    dependencies: [
        .package(path: "../../domain/ChappieCore"),
        .package(path: "../../domain/ChappieAuth"),
        .package(url: "https://github.com/apple/swift-system", from: "1.8.1"),
    ],
    targets: [
        .target(
            name: "ChappieFiles",
            dependencies: [
                "ChappieCore",
                "ChappieAuth",
                .product(name: "SystemPackage", package: "swift-system"),
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
