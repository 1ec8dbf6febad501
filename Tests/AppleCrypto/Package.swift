// swift-tools-version: 6.2
// Runs ChappieCrypto's code for Apple's platforms on Linux, beside its code for Linux: swift-crypto, which has
// CryptoKit's interface, stands in for CryptoKit. It is a package of its own, since `canImport(CryptoKit)` must be true
// here and nowhere else, and since no other build may resolve or compile swift-crypto.
import PackageDescription

let strict: [SwiftSetting] = Context.environment["CHAPPIE_STRICT"] == "1" ? [.treatAllWarnings(as: .error)] : []
var settings: [SwiftSetting] = [
    .enableUpcomingFeature("ExistentialAny"), .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"), .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
]
settings += strict
let system = Target.Dependency.product(name: "SystemPackage", package: "swift-system")
let httpTypes = Target.Dependency.product(name: "HTTPTypes", package: "swift-http-types")

let package = Package(
    name: "apple-crypto",
    dependencies: [
        .package(url: "https://github.com/apple/swift-crypto", exact: "4.5.2"),
        .package(url: "https://github.com/apple/swift-http-types", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/apple/swift-system", from: "1.8.1"),
    ],
    targets: [
        .target(name: "CryptoKit", dependencies: [.product(name: "Crypto", package: "swift-crypto")]),
        // Links to the packages' own sources.
        .target(name: "ChappieCore", dependencies: [httpTypes], swiftSettings: settings),
        .target(
            name: "ChappieAuth",
            dependencies: ["ChappieCore", httpTypes, .product(name: "Logging", package: "swift-log")],
            swiftSettings: settings),
        .target(name: "ChappieFiles", dependencies: ["ChappieCore", "ChappieAuth", system], swiftSettings: settings),
        .target(name: "COpenSSL"),
        // CryptoKit has no RSA: that is Security's on Apple's platforms, and libcrypto's here.
        .target(
            name: "ChappieCrypto",
            dependencies: ["ChappieCore", "ChappieAuth", "ChappieFiles", "CryptoKit", "COpenSSL", system],
            swiftSettings: settings),
        // The same sources again. To them CryptoKit is a module that does not exist.
        .target(
            name: "OpenSSLCrypto", dependencies: ["ChappieCore", "ChappieAuth", "ChappieFiles", "COpenSSL", system],
            swiftSettings: settings + [.unsafeFlags(["-module-alias", "CryptoKit=NoCryptoKit"])]),
        .target(name: "TestFixtures", dependencies: ["ChappieCore", "ChappieFiles", system], swiftSettings: settings),
        .testTarget(
            name: "AppleCryptoTests",
            dependencies: ["ChappieAuth", "ChappieCrypto", "OpenSSLCrypto", "TestFixtures"], swiftSettings: settings),
    ],
    swiftLanguageModes: [.v6],
    cLanguageStandard: .c11
)
