// Package aws is the driver of Amazon EC2, for MachineClasses and Secrets as
// MCM's AWS driver has them.
//
// A VM is made by one RunInstances whose ClientToken is the token of the
// attempt, so it can be repeated. What is the machine's is known by its tags: the
// keys of the class that name the cluster and the role, the machine's name, and
// its owner id. Lookups and terminations that come together are one call.
//
// Package ec2test is an EC2 endpoint with memory for tests.
package aws
