// Package hetznertest is a server that behaves as Hetzner Cloud's API does, as far as the driver
// calls it: servers with their addresses and states, floating IPs, volumes, and what servers are
// made from.
//
// What it knows of the API's form is schema.json, an extract of the types of Hetzner's own client
// library. Each request is compared with it before anything else happens, and each answer after.
// States follow from a clock, and nothing runs by itself.
package hetznertest
