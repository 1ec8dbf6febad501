// swift-tools-version: 6.2
// What a Mac alone can prove: `Scripts/test --mac`. No Mac has run it.
import PackageDescription

func chappie(_ product: String) -> Target.Dependency { .product(name: product, package: "chappie") }

let package = Package(
    name: "mac",
    platforms: [.macOS(.v15)],
    dependencies: [.package(name: "chappie", path: "../..")],
    targets: [
        // The documentation's app, over Apple's own SwiftUI.
        .executableTarget(name: "DocumentsApp", dependencies: [chappie("ChappieSDK"), chappie("ChappieSDKRuntime")]),
        .testTarget(
            name: "MacTests",
            dependencies: [
                chappie("ChappieSDKTesting"), chappie("ChappieAuth"), chappie("ChappieCore"),
                chappie("ChappieURLSession"), chappie("ChappieWebSocket"), chappie("ChappieKeychainApple"),
                chappie("ChappieCrypto"),
            ]),
    ],
    swiftLanguageModes: [.v6]
)
