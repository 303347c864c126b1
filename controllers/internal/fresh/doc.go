// Package fresh keeps a process from acting on what its caches do not show yet. Each part covers a
// staleness of its own; none covers that of another:
//
//	the cache does not show                         then                                           part
//	what former leaders did                         a new leader does not begin                    CatchUp
//	this controller's last write to the object      Get fails with a conflict                      Client
//	an object that this controller made or changed  the list is not believed: Check fails          Dependents
//	    in the list of its owner, or a write of it
//	    that got no answer
//	the same, where that is no reason to wait       the list is completed with it                  Writes
//	a write, ever: a restore has undone it          asked for after fence.Reach, without an event  Recheck, Client
//
// A MachineDeployment waits for its few sets ([Dependents]): it derives their sizes from each other.
// A MachineSet does not wait for its hundreds of Machines ([Writes]): the cache shows one or the other
// of them late at any time. What others wrote no part can know: that takes a precondition or an
// uncached read; see docs/protocol.md.
//
// All of it is lost at a restart without harm: caches start with a new list.
package fresh
