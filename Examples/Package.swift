// swift-tools-version: 6.2
// Small programs on Chappie. Copy one: in a package of your own the dependency is
//     .package(url: "https://…/chappie", from: "0.1.0")
import PackageDescription

let sdk = Target.Dependency.product(name: "ChappieSDK", package: "chappie")
let runtime = Target.Dependency.product(name: "ChappieRuntime", package: "chappie")
let kept = Target.Dependency.product(name: "ChappieSDKRuntime", package: "chappie")

let package = Package(
    name: "examples",
    platforms: [.macOS(.v15), .iOS(.v18)],
    // For an app's target in Xcode.
    products: [.library(name: "ChatModel", targets: ["ChatModel"])],
    dependencies: [.package(name: "chappie", path: "..")],
    targets: [
        .executableTarget(name: "chat", dependencies: [sdk, "Playground"]),
        .executableTarget(name: "many-users", dependencies: [sdk, kept, "Playground"]),
        .executableTarget(name: "tool-approval", dependencies: [sdk, "Playground"]),
        .executableTarget(name: "agent", dependencies: [sdk, "Playground"]),
        .executableTarget(
            name: "custom-store",
            dependencies: [sdk, .product(name: "ChappieAuth", package: "chappie"), "Playground"]),
        .executableTarget(name: "thread-store", dependencies: [sdk, runtime, "Playground"]),
        .executableTarget(
            name: "sign-in-model",
            dependencies: [
                sdk, .product(name: "ChappieAuth", package: "chappie"),
                .product(name: "ChappieSignInUI", package: "chappie"), "Playground",
            ]),
        .testTarget(
            name: "ThreadStoreTests",
            dependencies: ["thread-store", .product(name: "ChappieSDKTesting", package: "chappie")]),
        // An app's own code, and its tests.
        .target(name: "Notes", dependencies: [sdk]),
        .testTarget(
            name: "NotesTests",
            dependencies: ["Notes", sdk, .product(name: "ChappieSDKTesting", package: "chappie")]),
        // A chat app for SwiftUI: its state, which runs everywhere, and its tests. The app itself is added below.
        .target(name: "ChatModel", dependencies: [sdk, kept]),
        .testTarget(
            name: "ChatModelTests",
            dependencies: ["ChatModel", sdk, kept, .product(name: "ChappieSDKTesting", package: "chappie")]),
        // Where the programs sign in: the service, or a simulator that the environment names.
        .target(name: "Playground", dependencies: [sdk]),
    ]
)

// Linux has no SwiftUI.
#if os(macOS)
    package.targets.append(
        .executableTarget(
            name: "ChatApp", dependencies: ["ChatModel", sdk, kept], exclude: ["Info.plist", "ChatApp.entitlements"]))
#endif
