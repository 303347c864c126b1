// Package qemu boots guests directly, without a cloud, for tests of what guests make of their
// boot data. Each has a network of its own, in which nothing answers but what a test serves there.
package qemu
