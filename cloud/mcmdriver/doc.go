// Package mcmdriver runs drivers that were written for Machine Controller Manager
// (MCM): whatever has the six methods of its driver.Driver.
//
//	mcmdriver.Wrap(mydriver.New(), mcmdriver.Traits{
//		Cloud:            cloud.Traits{Name: "MyCloud", UserDataMax: 16 << 10, NodeNamed: true},
//		ProviderIDPrefix: "mycloud:///",
//		Secret:           []string{"apiToken"},
//	})
//
// MCM's module is not imported. Types are matched by their shape: the compiler infers
// the types of requests and responses from the driver's methods, and values cross as
// the JSON that the API server keeps, which is the same on both sides. Errors are told
// apart by MCM's codes, in the text that MCM itself reads them from.
//
// Such a driver is legacy (cloud.Traits.Legacy), because MCM's interface has no place
// for what the contract of package cloud asks for:
//
//   - No idempotency key: a request for a VM whose answer was lost is repeated after the
//     settle time and a look. Two processes at once, or a cloud that shows a VM later
//     than that, make two VMs. The orphan collector removes the second one.
//   - No owner id and no tags of ours: a VM is known by the name of its Machine.
//   - No states, ages, zones, interfaces or disks: a VM that exists counts as running,
//     and what else was made with it is for the driver to remove.
//
// The native API accepts that, as MCM does. Cluster API refuses classes of legacy drivers.
package mcmdriver
