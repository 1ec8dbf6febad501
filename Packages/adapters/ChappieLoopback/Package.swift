// swift-tools-version: 6.2
// Adapter: CallbackListener over POSIX sockets on 127.0.0.1.
import PackageDescription

let package = Package(
    name: "ChappieLoopback",
    platforms: [.macOS(.v15), .iOS(.v18), .visionOS(.v2)],
    products: [.library(name: "ChappieLoopback", targets: ["ChappieLoopback"])],
    dependencies: [
        .package(path: "../../domain/ChappieAuth"),
        .package(path: "../ChappieFiles"),
        .package(url: "https://github.com/apple/swift-system", from: "1.8.1"),
    ],
    targets: [
        .target(
            name: "ChappieLoopback",
            dependencies: [
                "ChappieAuth",
                "ChappieFiles",
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
