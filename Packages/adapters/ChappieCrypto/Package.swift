// swift-tools-version: 6.2
// Adapter: CredentialStore in encrypted files, SignInCryptography; over libcrypto, and over CryptoKit and Security on Apple's
// platforms.
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
    name: "ChappieCrypto",
    platforms: [.macOS(.v15), .iOS(.v18), .visionOS(.v2)],
    products: [.library(name: "ChappieCrypto", targets: ["ChappieCrypto"])],
    dependencies: [
        .package(path: "../../domain/ChappieCore"),
        .package(path: "../../domain/ChappieAuth"),
        .package(path: "../ChappieFiles"),
        .package(url: "https://github.com/apple/swift-system", from: "1.8.1"),
    ],
    targets: [
        .target(name: "COpenSSL"),
        .target(
            name: "ChappieCrypto",
            dependencies: [
                "ChappieCore",
                "ChappieAuth",
                "ChappieFiles",
                .byName(name: "COpenSSL", condition: .when(platforms: [.linux])),
                .product(name: "SystemPackage", package: "swift-system"),
            ],
            exclude: privacyExcluded, resources: privacyResources),
        .executableTarget(
            name: "FileStoreWriter",
            dependencies: [
                "ChappieAuth",
                "ChappieCrypto",
            ],
            path: "Tests/FileStoreWriter"),
    ],
    swiftLanguageModes: [.v6],
    cLanguageStandard: .c11
)

let cModules: Set<String> = ["COpenSSL"]
for target in package.targets where !cModules.contains(target.name) {
    target.swiftSettings = [
        .enableUpcomingFeature("ExistentialAny"),
        .enableUpcomingFeature("InternalImportsByDefault"),
        .enableUpcomingFeature("MemberImportVisibility"),
        .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
    ]
    if Context.environment["CHAPPIE_STRICT"] == "1" { target.swiftSettings?.append(.treatAllWarnings(as: .error)) }
}
