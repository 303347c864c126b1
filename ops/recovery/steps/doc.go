// Package steps carries out the plans of package recovery: it holds the sets and deployments
// that get machines, creates these, adapts sizes, and releases everything again.
//
//	hold sets and ──▶ create Machines, ──▶ sizes, used ──▶ release machines, ──▶ release
//	deployments       held                 ordinals        then sets             deployments
//
// Each pass reads everything, plans again and does what is next. So a run that was
// interrupted between any two writes is continued by the next one, and adds nothing twice.
// No controller creates or deletes a machine of a pool meanwhile.
package steps
