// Package example is a whole driver, of a cloud that does not exist. It is what
// docs/adding-a-cloud.md builds and explains; a test keeps the two equal, and another one
// takes the driver through the conformance kit.
//
// The cloud speaks JSON over HTTP. One logs in with a key and gets a token that ends. A
// request for a VM takes an idempotency key. VMs come with a boot disk, which outlives
// them, and both have labels of a small alphabet.
package example
