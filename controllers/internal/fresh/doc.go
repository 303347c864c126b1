// Package fresh keeps a process from acting on what its caches do not show yet:
//
//   - [Client] refuses to read an object that is older than what its controller
//     wrote;
//   - [Dependents] refuses a list of an owner's objects that lacks such a write;
//   - [Writes] completes a list with the objects that the controller wrote;
//   - [Recheck] has a controller look once more at what it wrote, which a restore of
//     the API server may have undone;
//   - [CatchUp] waits, before a new leader begins, until the caches show what the
//     API server had then;
//   - [Dropped] remembers fields that the API server prunes.
//
// All of it is lost at a restart without harm: caches start with a new list.
package fresh
