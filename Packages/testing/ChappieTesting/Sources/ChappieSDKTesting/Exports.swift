// `import ChappieSDKTesting` brings the kit and the simulator in one line.

@_exported import ChappieSimulatorServer
@_exported import ChappieTesting
