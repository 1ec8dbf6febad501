// swift-tools-version: 6.2
// Fuzzers for everything that reads bytes from outside. Run them with `Scripts/check --fuzz`, which adds the flags that
// a manifest can't carry: libFuzzer's instrumentation in every module, and a linker that can take it.
import PackageDescription

let package = Package(
    name: "fuzz",
    dependencies: [
        .package(path: "../../Packages/domain/ChappieCore"),
        .package(path: "../../Packages/domain/ChappieJSONSchema"),
        .package(path: "../../Packages/domain/ChappieAuth"),
        .package(path: "../../Packages/application/ChappieClient"),
        .package(path: "../../Packages/faces/ChappieMarkdown"),
        .package(path: "../../Packages/adapters/ChappieMCP"),
        .package(path: "../../Packages/adapters/ChappieWebSocket"),
    ],
    targets: [
        .target(name: "CFuzzer"),
        .executableTarget(
            name: "fuzz",
            dependencies: [
                "CFuzzer", "ChappieCore", "ChappieJSONSchema", "ChappieAuth", "ChappieClient", "ChappieMarkdown",
                "ChappieMCP", "ChappieWebSocket",
            ]),
    ],
    swiftLanguageModes: [.v6],
    cLanguageStandard: .c11
)

for target in package.targets where target.name != "CFuzzer" {
    target.swiftSettings = [
        .enableUpcomingFeature("ExistentialAny"),
        .enableUpcomingFeature("InternalImportsByDefault"),
        .enableUpcomingFeature("MemberImportVisibility"),
        .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
    ]
}
