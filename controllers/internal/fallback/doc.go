// Package fallback chooses the MachineClass of a machine whose pool names several: the first
// one that is not known to be exhausted. What a cloud has refused is remembered for each class,
// so that later machines do not ask in vain, and after a back-off one machine tries the class
// again.
//
// The memory is one process's and lost at a restart: then some machines ask in vain once more.
// Nothing about the VM of a machine is decided from it, only which class comes next.
package fallback
