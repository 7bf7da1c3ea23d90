module locklab

go 1.22
