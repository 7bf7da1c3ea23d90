module sdk

go 1.22

require locklab v0.0.0

replace locklab => ../../../../drivers/sdk/go
