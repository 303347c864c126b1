// A module of its own: only the site needs a Markdown library.
module github.com/capmcm/cluster-api-provider-mcm/docs/site

go 1.26.0

toolchain go1.26.8

require (
	github.com/capmcm/cluster-api-provider-mcm v0.0.0
	github.com/yuin/goldmark v1.8.7
	golang.org/x/net v0.57.0
)

replace github.com/capmcm/cluster-api-provider-mcm => ../..
