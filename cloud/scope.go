package cloud

import (
	"context"
	"strings"
)

// ReasonWrongScope is the reason of the error of code Denied for credentials, or a class, of another
// account, project, subscription, tenant, resource group or region than that of the machine's VM.
const ReasonWrongScope = "WrongScope"

// ReasonUnprovenScope is the reason of the error of code Denied for credentials that show no VM of the
// machine, and of which nothing proves that they are of the account where its VM was made.
const ReasonUnprovenScope = "UnprovenScope"

// ScopeRecord is the annotation in which controllers keep Ref.Scope; texts for users name it.
const ScopeRecord = TagPrefix + "cloud-scope"

// vagueScope begins a scope that follows from the credentials or the endpoint.
const vagueScope = "~"

// A Scoper is an Account that can name where its VMs are.
type Scoper interface {
	// Scope names the account of the cloud that the credentials belong to, in the cloud's own terms,
	// and the part of it where VMs of c are, e.g. "project web, region eu-1". It is the same for
	// all credentials of that account, for ever, and no secret. Where the cloud names no account,
	// it is VagueScope. What costs a call is kept for the life of the account.
	// Codes: Denied, Throttled, Unavailable, Unknown.
	Scope(ctx context.Context, c Class) (string, error)
}

// Scope returns what a names as the scope of c; empty if it names none.
func Scope(ctx context.Context, a Account, c Class) (string, error) {
	if s, ok := a.(Scoper); ok {
		return s.Scope(ctx, c)
	}
	return "", nil
}

// VagueScope is a scope for a cloud that names no account. Equal ones are the same account; whether
// different ones are, only a VM shows that is seen through both.
func VagueScope(name string) string { return vagueScope + name }

// IsVague reports whether a scope is one of VagueScope. An empty one is vague.
func IsVague(scope string) bool { return scope == "" || strings.HasPrefix(scope, vagueScope) }

// WrongScope is the error of code Denied for a VM that is in one scope and is looked for in another.
func WrongScope(op, recorded, now string) *Error {
	return Errorf(Denied, op, ReasonWrongScope, "the VM, or those of the other machines of its class, are in %s, and "+
		"class and credentials lead to %s: give the class the credentials and places of the former again, and VMs elsewhere "+
		"a class of their own", recorded, now)
}
