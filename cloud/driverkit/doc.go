// Package driverkit is what drivers of different clouds have in common: one
// call for many callers (Batcher), and the checks of a provider spec (Checks).
//
// A driver, a decorator of accounts and a driver outside of this repository may
// use it alike. It knows the contract, and no cloud.
package driverkit
