// A module of its own, with tags of its own: whoever runs drivers of Machine Controller Manager
// requires it, and whoever does not has none of it.
module github.com/capmcm/cluster-api-provider-mcm/cloud/mcmdriver

go 1.26.0

toolchain go1.26.8

require github.com/capmcm/cluster-api-provider-mcm v0.1.0

replace github.com/capmcm/cluster-api-provider-mcm => ../..
