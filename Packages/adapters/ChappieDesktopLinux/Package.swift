// swift-tools-version: 6.2
// Adapter: browser, clipboard, notification.
import PackageDescription

let package = Package(
    name: "ChappieDesktopLinux",
    platforms: [.macOS(.v15), .iOS(.v18), .visionOS(.v2)],
    products: [.library(name: "ChappieDesktopLinux", targets: ["ChappieDesktopLinux"])],
    dependencies: [
        .package(path: "../../domain/ChappieCore"),
        .package(path: "../../domain/ChappieAuth"),
        .package(path: "../ChappieFiles"),
        .package(path: "../ChappieProcess"),
        .package(url: "https://github.com/apple/swift-system", from: "1.8.1"),
    ],
    targets: [
        .target(
            name: "ChappieDesktopLinux",
            dependencies: [
                "ChappieCore",
                "ChappieAuth",
                "ChappieFiles",
                "ChappieProcess",
                .product(name: "SystemPackage", package: "swift-system"),
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
