// Package evidence keeps the consoles of machines that did not join, so that the reason is known
// after their VMs are gone: for each pool one Secret, which the pool owns, with the last failures.
//
// It is best effort: whatever fails is logged, and nothing waits for it or depends on it. A
// machine's console is read once; in a failure of a whole pool those of a few machines.
package evidence
