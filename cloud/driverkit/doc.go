// Package driverkit is what drivers of different clouds have in common. A driver keeps
// what only it knows: the fields of its spec, the requests and answers of its cloud, and
// the table of its errors.
//
//   - Specs and Secrets: Decode, Checks, Ownership, SpecOf; Secret; DecodeProviderID.
//   - Calls: API and Session speak JSON over HTTP, Login logs in once for all callers;
//     Table tells what answers mean.
//   - Methods of Account: Creation with Attempts and Steps, One, Remove, List with Pages.
//   - State in memory: Batcher shares calls, Cache shares facts, Turns take turns.
//   - Tags: TagCodec, MergeTags, Carries, IsOf.
//
// docs/adding-a-cloud.md builds a driver from these pieces. The package knows the contract
// and no cloud, so a driver outside of this repository may use it alike.
package driverkit
