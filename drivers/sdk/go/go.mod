module locklab

go 1.24
