// Package gcptest is a double of Google Compute Engine: one HTTP handler for the API and for the
// services that give out tokens. Its state follows from a clock that the test moves. A gate in front
// of it, made of Google's own description of the API, refuses what the API does not know, and
// reports it to the test; it judges the answers too.
//
// What the description does not say is from public reports, such as the words for a name that is taken, or
// invented: how long things take, Hide, LeaveDisks, and that labels are refused by their form alone.
package gcptest
