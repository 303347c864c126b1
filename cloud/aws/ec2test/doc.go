// Package ec2test is an EC2 endpoint with memory, time and faults, for tests.
//
// Cloud speaks EC2's query protocol over HTTP, so that the real SDK talks to it:
// signatures are checked, ClientTokens are remembered, answers come in pages, new
// resources can stay invisible for a while, and capacity, quota and rate run out. It
// starts no goroutines: what state an instance is in follows from the clock.
//
// Requests are checked against the model that Amazon publishes of its API, and
// against rules of its documentation that no model states.
//
// It knows what the driver asks for and answers InvalidAction to everything
// else. Fields that have no effect here are accepted, and can be seen in Calls.
package ec2test
