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
//
// From Amazon's published model are: parameters, types, enumerations, ranges, and the elements of answers. From
// the EC2 user and developer guides: that a page can be empty and have a token, the codes of refusals, limits of
// tags and filters, token buckets, what ClientToken means, states and their reasons. From public reports: that
// DeleteNetworkInterface answers InvalidParameterValue "is currently in use", that a launch can end with
// Client.InternalError (a KMS key), and that an instance can lack its private DNS name. Invented are: times and
// ids, which part of a request is looked at first, most texts of errors, the refusal of negative counts (the model
// has no minimum), and that EC2 shows all its parts of an instance at once.
package ec2test
