// Package chart installs the Helm chart of a release with Helm's own library into
// a real API server, and runs the manager from the release's image.
package chart
