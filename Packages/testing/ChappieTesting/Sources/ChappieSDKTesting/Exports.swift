// `import ChappieSDKTesting` imports both the kit and the simulator.

@_exported import ChappieSimulatorServer
@_exported import ChappieTesting
