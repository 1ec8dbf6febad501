// swift-tools-version: 6.2
// Adapter: CredentialStore over the Secret Service.
import PackageDescription

let package = Package(
    name: "ChappieKeychainLinux",
    platforms: [.macOS(.v15), .iOS(.v18), .visionOS(.v2)],
    products: [.library(name: "ChappieKeychainLinux", targets: ["ChappieKeychainLinux"])],
    dependencies: [
        .package(path: "../../domain/ChappieCore"),
        .package(path: "../../domain/ChappieAuth"),
    ],
    targets: [
        .target(name: "CSecret"),
        .target(
            name: "ChappieKeychainLinux",
            dependencies: [
                "ChappieCore",
                "ChappieAuth",
                "CSecret",
            ]),
    ],
    swiftLanguageModes: [.v6],
    cLanguageStandard: .c11
)

let cModules: Set<String> = ["CSecret"]
for target in package.targets where !cModules.contains(target.name) {
    target.swiftSettings = [
        .enableUpcomingFeature("ExistentialAny"),
        .enableUpcomingFeature("InternalImportsByDefault"),
        .enableUpcomingFeature("MemberImportVisibility"),
        .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
    ]
    if Context.environment["CHAPPIE_STRICT"] == "1" { target.swiftSettings?.append(.treatAllWarnings(as: .error)) }
}
