// Package guests takes machines through their whole life where nothing is played: a
// Debian boots in QEMU from what the manager sends to a real Nova, cloud-init reads it
// from the config drive, and a real kubelet joins a real control plane with it. make
// guests builds what that needs and runs it.
package guests
