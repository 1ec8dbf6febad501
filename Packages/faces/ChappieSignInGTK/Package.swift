// swift-tools-version: 6.2
// The sign-in button and its sheet for GTK 4. A root of its own: only a program that takes it needs GTK's headers.
import PackageDescription

let package = Package(
    name: "ChappieSignInGTK",
    platforms: [.macOS(.v15)],
    products: [
        .library(name: "ChappieSignInGTK", targets: ["ChappieSignInGTK"]),
        // GTK for the program itself: one C module, so that its types are the same on both sides.
        .library(name: "CGtk4", targets: ["CGtk4"]),
    ],
    dependencies: [.package(name: "chappie", path: "../../..")],
    targets: [
        .systemLibrary(name: "CGtk4", pkgConfig: "gtk4", providers: [.apt(["libgtk-4-dev"])]),
        .target(
            name: "ChappieSignInGTK",
            dependencies: [
                "CGtk4",
                .product(name: "ChappieCore", package: "chappie"),
                .product(name: "ChappieAuth", package: "chappie"),
                .product(name: "ChappieSignInUI", package: "chappie"),
            ]),
    ],
    swiftLanguageModes: [.v6],
    cLanguageStandard: .c11
)

for target in package.targets where target.type != .system {
    target.swiftSettings = [
        .enableUpcomingFeature("ExistentialAny"),
        .enableUpcomingFeature("InternalImportsByDefault"),
        .enableUpcomingFeature("MemberImportVisibility"),
        .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
    ]
    if Context.environment["CHAPPIE_STRICT"] == "1" { target.swiftSettings?.append(.treatAllWarnings(as: .error)) }
}
