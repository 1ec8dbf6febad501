// swift-tools-version: 6.2
// Adapter: CredentialStore over the keychain of Apple's systems.
import PackageDescription

let package = Package(
    name: "ChappieKeychainApple",
    platforms: [.macOS(.v15), .iOS(.v18), .visionOS(.v2)],
    products: [.library(name: "ChappieKeychainApple", targets: ["ChappieKeychainApple"])],
    dependencies: [
        .package(path: "../../domain/ChappieCore"),
        .package(path: "../../domain/ChappieAuth"),
    ],
    targets: [
        .target(
            name: "ChappieKeychainApple",
            dependencies: [
                "ChappieCore",
                "ChappieAuth",
            ])
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
