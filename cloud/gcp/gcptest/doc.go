// Package gcptest is a double of Google Compute Engine: one HTTP handler for the API and for the
// services that give out tokens. Its state follows from a clock that the test moves. A gate in front
// of it, made of Google's own description of the API, refuses what the API does not know, and
// reports it to the test; it judges the answers too.
package gcptest
