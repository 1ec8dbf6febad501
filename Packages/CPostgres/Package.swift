// swift-tools-version: 6.2
// libpq, PostgreSQL's own client library, imported.
import PackageDescription

let package = Package(
    name: "CPostgres",
    platforms: [.macOS(.v15), .iOS(.v18)],
    products: [.library(name: "CPostgres", targets: ["CPostgres"])],
    targets: [
        .target(name: "CPostgres")
    ],
    swiftLanguageModes: [.v6],
    cLanguageStandard: .c11
)
