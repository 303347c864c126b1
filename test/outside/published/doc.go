// Package published runs published drivers of Machine Controller Manager, as their modules are, through package
// mcmdriver.
package published
