// swift-tools-version: 6.2
// A chat window: the example of a second composition root. A root of its own, since it needs GTK's headers.
import PackageDescription

let package = Package(
    name: "chappie-gtk",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(name: "chappie", path: "../.."),
        .package(path: "../../Packages/faces/ChappieSignInGTK"),
    ],
    targets: [
        .executableTarget(
            name: "chappie-gtk",
            dependencies: [
                .product(name: "ChappieSDK", package: "chappie"),
                .product(name: "ChappieSDKRuntime", package: "chappie"),
                .product(name: "ChappieProgramTools", package: "chappie"),
                .product(name: "ChappieMarkdown", package: "chappie"),
                .product(name: "ChappieThreadForms", package: "chappie"),
                .product(name: "ChappieSignInGTK", package: "ChappieSignInGTK"),
                .product(name: "CGtk4", package: "ChappieSignInGTK"),
            ])
    ],
    swiftLanguageModes: [.v6],
    cLanguageStandard: .c11
)

for target in package.targets {
    target.swiftSettings = [
        .enableUpcomingFeature("ExistentialAny"),
        .enableUpcomingFeature("InternalImportsByDefault"),
        .enableUpcomingFeature("MemberImportVisibility"),
        .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
    ]
    if Context.environment["CHAPPIE_STRICT"] == "1" { target.swiftSettings?.append(.treatAllWarnings(as: .error)) }
}
