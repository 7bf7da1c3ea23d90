module control

go 1.22

require locklab v0.0.0

replace locklab => ../../sdk/go
