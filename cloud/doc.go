// Package cloud is the contract between the controllers and the clouds that
// machines come from.
//
// Everything here is a plain value: a driver never sees a Kubernetes object, a
// controller never sees an SDK type. The package imports only the standard
// library; package cloudtest tries every rule written below.
//
// A Driver is the pure half: it parses, checks and names without any call. An
// Account is the half that talks to the cloud; it belongs to one set of
// credentials at one endpoint and owns the session, the rate budget and the
// caches that go with them.
//
// The rules, in one place:
//
//  1. For equal name and token, Create makes at most one VM, whatever was lost
//     on the way, and returns that VM.
//  2. No call waits for a VM to change state. Create and Delete do what they
//     can at once and say when to come back.
//  3. Delete removes what Create made and nothing that it cannot prove to own.
//     It needs neither user data nor a valid spec.
//  4. List yields what carries the class's ownership tags, of every kind.
//  5. Every error is an *Error. Its code is one of the reactions of the
//     controllers, its text is free of secrets.
//  6. Arguments are never modified and never kept.
package cloud
