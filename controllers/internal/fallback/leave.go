package fallback

import (
	"errors"
	"fmt"
	"slices"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// Refusal returns err as the cloud's refusal of a class of those that a pool names; nil if it is
// another error, after which no other class would serve either. Everything but a lack of capacity
// is to be corrected where it is the first class that was refused. Boot data is that of one
// machine, and says nothing about its class.
func Refusal(err error, names []string, class string) *cloud.Error {
	e, ok := errors.AsType[*cloud.Error](err)
	if !ok || e.Reason == infrav1.ReasonPlainBootData {
		return nil
	}
	further := len(names) > 1 && slices.Contains(names[1:], class)
	if e.Code == cloud.Exhausted || further && (e.Code == cloud.Invalid || e.Code == cloud.Denied) {
		return e
	}
	return nil
}

// Leave notes that the cloud has refused the offer of the class named was, and returns the candidate
// with which the machine of that owner id goes on, which begins to ask for that; false if there is
// none.
func (m *Memory) Leave(o Offer, refusal *cloud.Error, pool []Candidate, owner, was string) (Candidate, bool) {
	m.Refused(o, refusal.Error())
	next, ok := m.Next(pool, owner, was)
	return next, ok && m.Begin(next.Offer, owner)
}

// LeaveMessage is the message of the Event that a machine goes on with another class.
func LeaveMessage(was, next string, refusal *cloud.Error) string {
	return fmt.Sprintf("MachineClass %s cannot be used: %s; falling back to MachineClass %s", was, refusal, next)
}

// SwitchMessage is what a machine shows while it changes its class.
func SwitchMessage(was, next string) string {
	return fmt.Sprintf("MachineClass %s follows once nothing is left of the VM requested from MachineClass %s", next, was)
}
