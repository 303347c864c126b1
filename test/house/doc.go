// Package house holds this repository to its own rules: who may import whom,
// how large things may get, what a reconciler may not do, and that the
// documents are true. It reads files and builds nothing.
package house
