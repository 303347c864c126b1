// Package explain derives from the objects of both APIs what a machine or a pool of
// machines waits for. Facts go in and findings come out: nothing here makes a request, reads
// a clock or decides anything for a controller. Package read beside this one collects the facts.
//
// The conditions that controllers write are the source. What a reason means, who has to act
// and how is in reasons.yaml, from which docs/troubleshooting.md is made as well.
package explain
