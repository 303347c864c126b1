// Package wrap has what every account is wrapped in, whatever the cloud. Each
// decorator is a cloud.Middleware that is safe for concurrent use, never modifies
// arguments and passes io.Closer through. None starts a goroutine, but for a
// listing that several callers wait for.
//
// Standard puts them into the right order. From the caller to the cloud:
//
//	Scopes          no other account's answer about a machine is believed
//	SharedListing   one listing for everyone who asks in a period
//	PacedDeletions  a deletion is not asked about sooner than the cloud said
//	Offerings       what is sold out is not asked for again at once
//	Budget          an account's rate, learned from the cloud's answers
//	Trace           a span of each call that gets here, if they are wanted
//	Metrics         counts what gets here, so only calls that are made
//	Timeout         an end to every call
//	Redact          no secret and no panic gets past it
//
// Nothing in here waits, except for a listing that somebody else is already
// reading: a call that has to come later is refused at once with
// cloud.Throttled and says when.
package wrap
