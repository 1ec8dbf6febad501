// swift-tools-version: 6.2
// A server for many users on several machines. It is a separate package, because it brings Hummingbird. In a package of
// your own the dependency on Chappie is
//     .package(url: "https://…/chappie", from: "0.1.0")
import PackageDescription

let package = Package(
    name: "chappie-server",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(name: "chappie", path: "../.."),
        .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.1"),
        .package(url: "https://github.com/apple/swift-http-types", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
    ],
    targets: [
        // libpq and libcrypto, for the server's own two tables and its cookie.
        .systemLibrary(name: "CServer"),
        .executableTarget(
            name: "chappie-server",
            dependencies: [
                "CServer",
                .product(name: "ChappieSDK", package: "chappie"),
                .product(name: "ChappieSDKRuntime", package: "chappie"),
                .product(name: "ChappieCredentialsPostgres", package: "chappie"),
                .product(name: "ChappieThreadsPostgres", package: "chappie"),
                .product(name: "HTTPTypes", package: "swift-http-types"),
                .product(name: "Hummingbird", package: "hummingbird"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            ],
            resources: [.embedInCode("page.html")],
            swiftSettings: [.enableUpcomingFeature("ExistentialAny")]),
    ],
    swiftLanguageModes: [.v6]
)
